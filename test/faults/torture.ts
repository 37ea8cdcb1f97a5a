import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { createWeirAdminClient } from "../../sdk/admin.ts";
import { type CloudEvent, cloudEvent, createWeirClient, type WeirClient } from "../../sdk/index.ts";
import { kafkaClient } from "../support/kafka-client.ts";
import { silentLogger } from "../support/logger.ts";
import { createLedger, type Ledger, nameOf, type Verdict } from "./ledger.ts";
import { startPlatform, type Part, type Platform } from "./platform.ts";
import { createPoison, type PoisonVerdict } from "./poison.ts";

const EVENTS_TOPIC = "weir.events.v1";

/** How a run of faults goes. */
export interface TortureOptions {
  /** How many events are sent. */
  readonly events: number;
  /** How many records of poison are written to the log among them. */
  readonly poison: number;
  /** The most bytes that an event's data have; at least 64. */
  readonly dataBytes: number;
  /** How many SIGKILLs are spread over the sending. */
  readonly kills: number;
  /** What is killed: each part once, in this order, then whichever chance says. */
  readonly parts: readonly Part[];
  /** One event a call, so many calls at once, each repeated by ourselves; or the SDK's publisher, which repeats itself. */
  readonly senders: number | "publisher";
  /** Decides which part each kill hits: the same seed gives the same order. */
  readonly seed: number;
  readonly say: (line: string) => void;
}

/** What a run came to. */
export interface TortureResult extends Verdict {
  readonly killed: Readonly<Record<Part, number>>;
  /** Calls that failed and were sent again; unknown of the publisher. */
  readonly retries: number | undefined;
  readonly sendingSeconds: number;
  readonly settlingSeconds: number;
  readonly poison: PoisonVerdict;
  /** What the audit of the log says, over all partitions. */
  readonly audit: Readonly<Record<AuditCount, number>>;
}

const AUDIT_COUNTS = ["stored", "duplicates", "deadLetters", "skipped", "unaccounted"] as const;
type AuditCount = (typeof AUDIT_COUNTS)[number];

/**
 * Sends events while parts of the platform are killed; every event is sent again until it is acknowledged. Then waits
 * until the workers have stored the whole log, and compares.
 */
export async function torture(options: TortureOptions): Promise<TortureResult> {
  await using platform = await startPlatform();
  const ledger = createLedger(options.events);
  const weir = createWeirClient({ baseUrl: platform.baseUrl, token: platform.token, timeoutMs: 15_000 });
  const giveUp = Date.now() + 60_000 + options.kills * 30_000 + options.events * 5;
  const run: Run = { options, weir, ledger, giveUp, time: new Date() };

  const started = Date.now();
  const poison = createPoison(options.poison, platform.brokers, EVENTS_TOPIC);
  const isDue = (index: number): boolean =>
    ledger.acknowledgedCount >= Math.floor((index / options.poison) * options.events);
  const sending = options.senders === "publisher" ? publishAll(run) : callAll(run, options.senders);
  const poisoning = poison.send(isDue, giveUp);
  const all = Promise.all([sending, poisoning]);
  const killed = await killParts(platform, ledger, options, all);
  const [retries] = await all;
  const sent = Date.now();
  options.say(`all are acknowledged after ${(sent - started) / 1000} s`);
  await untilStored(platform, giveUp);
  const stored = Date.now();
  options.say(`all are stored after ${(stored - sent) / 1000} s more`);
  const verdict = await ledger.compare(platform.databaseUrl);
  return {
    ...verdict,
    killed,
    retries,
    sendingSeconds: (sent - started) / 1000,
    settlingSeconds: (stored - sent) / 1000,
    poison: await poison.compare(platform.databaseUrl),
    audit: await auditLog(platform),
  };
}

async function auditLog({ baseUrl, token }: Platform): Promise<Record<AuditCount, number>> {
  const admin = createWeirAdminClient({ baseUrl, token, timeoutMs: 600_000 });
  const sum = { stored: 0, duplicates: 0, deadLetters: 0, skipped: 0, unaccounted: 0 };
  for await (const partition of admin.accounting.auditLog({}))
    for (const name of AUDIT_COUNTS) sum[name] += Number(partition[name]);
  return sum;
}

interface Run {
  readonly options: TortureOptions;
  readonly weir: WeirClient;
  readonly ledger: Ledger;
  /** By Date.now(). */
  readonly giveUp: number;
  /** Of every event. */
  readonly time: Date;
}

/** Makes an event and writes it into the ledger. */
function createEvent({ options, ledger, time }: Run, index: number): CloudEvent {
  const data = randomBytes(64 + ((index * 7919) % Math.max(1, options.dataBytes - 63)));
  ledger.sent(index, data);
  return cloudEvent({ ...nameOf(index), type: "weir.test.fault", time, data });
}

async function callAll(run: Run, senders: number): Promise<number> {
  const { options, weir, ledger, giveUp } = run;
  let next = 0;
  let retries = 0;
  const sender = async (): Promise<void> => {
    for (let index = next++; index < options.events; index = next++) {
      const event = createEvent(run, index);
      for (;;) {
        try {
          await weir.ingest.createEvent({ event });
          ledger.acknowledged(index);
          break;
        } catch (error) {
          if (Date.now() > giveUp) throw new Error(`event ${index} was never acknowledged`, { cause: error });
          retries++;
          await sleep(100);
        }
      }
    }
  };
  await Promise.all(Array.from({ length: senders }, sender));
  return retries;
}

async function publishAll(run: Run): Promise<undefined> {
  const { options, weir, ledger, giveUp } = run;
  const failed = new AbortController();
  await using publisher = weir.publisher({ timeoutMs: giveUp - Date.now(), signal: failed.signal });
  for (let index = 0; index < options.events; index++) {
    await publisher.ready();
    failed.signal.throwIfAborted();
    publisher.publish(createEvent(run, index)).then(
      () => ledger.acknowledged(index),
      (error: unknown) => failed.abort(new Error(`event ${index} was not acknowledged`, { cause: error })),
    );
  }
  await publisher.flush();
  failed.signal.throwIfAborted();
}

/** Each kill comes when its share of the events is acknowledged, so that all of them fall into the sending. */
async function killParts(
  platform: Platform,
  ledger: Pick<Ledger, "acknowledgedCount">,
  { events, kills, parts, seed, say }: TortureOptions,
  sending: Promise<unknown>,
): Promise<Record<Part, number>> {
  const killed: Record<Part, number> = { server: 0, worker: 0, broker: 0, PostgreSQL: 0 };
  const random = randomFrom(seed);
  let failed = false;
  sending.catch(() => (failed = true));
  for (let kill = 0; kill < kills; kill++) {
    const due = Math.floor(((kill + 0.5) / kills) * events);
    while (ledger.acknowledgedCount < due && !failed) await sleep(10);
    if (failed) break;
    const part = parts[kill < parts.length ? kill : Math.floor(random() * parts.length)] ?? "server";
    killed[part]++;
    const began = Date.now();
    await platform.killAndRestart(part);
    say(`kill ${kill + 1} of ${kills}: ${part}, back after ${Date.now() - began} ms`);
  }
  return killed;
}

/** Stored is what the checkpoint says: each partition's has reached the end of the log. */
async function untilStored({ databaseUrl, brokers }: Platform, giveUp: number): Promise<void> {
  await using admin = kafkaClient.createAdmin({
    connection: {
      brokers: [brokers],
      clientId: "weir-faults",
      tls: undefined,
      sasl: undefined,
      connectTimeoutMs: 5_000,
      requestTimeoutMs: 10_000,
    },
    log: silentLogger,
  });
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    for (;;) {
      const log = await admin.logRanges(EVENTS_TOPIC);
      const { rows } = await client.query<{ partition: number; next_offset: string | null }>(
        "select partition, next_offset from consumer.checkpoint where topic = $1",
        [EVENTS_TOPIC],
      );
      const next = new Map(rows.map((row) => [row.partition, BigInt(row.next_offset ?? -1)]));
      const behind = [...log].filter(([partition, { end }]) => end > 0n && next.get(partition) !== end);
      if (behind.length === 0) return;
      if (Date.now() > giveUp) {
        throw new Error(
          `the workers never stored partitions ${behind.map(([partition]) => partition).join(", ")} to the end`,
        );
      }
      await sleep(100);
    }
  } finally {
    await client.end();
  }
}

/** mulberry32: small, and the same everywhere. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}
