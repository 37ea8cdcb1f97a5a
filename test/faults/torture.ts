import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { cloudEvent, createWeirClient } from "../../sdk/index.ts";
import { kafkaClient } from "../support/kafka-client.ts";
import { silentLogger } from "../support/logger.ts";
import { createLedger, type Verdict } from "./ledger.ts";
import { PARTS, startPlatform, type Part, type Platform } from "./platform.ts";

const EVENTS_TOPIC = "weir.events.v1";

/** How a run of faults goes. */
export interface TortureOptions {
  /** How many events are sent. */
  readonly events: number;
  /** How many SIGKILLs are spread over the sending. */
  readonly kills: number;
  /** Calls in flight at once. */
  readonly senders: number;
  /** Decides which part each kill hits: the same seed gives the same order. */
  readonly seed: number;
  readonly say: (line: string) => void;
}

/** What a run came to. */
export interface TortureResult extends Verdict {
  readonly killed: Readonly<Record<Part, number>>;
  /** Calls that failed and were sent again. */
  readonly retries: number;
  readonly sendingSeconds: number;
  readonly settlingSeconds: number;
}

/**
 * Sends events while parts of the platform are killed; every event is sent again until it is acknowledged. Then waits
 * until the workers have stored the whole log, and compares.
 */
export async function torture(options: TortureOptions): Promise<TortureResult> {
  await using platform = await startPlatform();
  const ledger = createLedger();
  const weir = createWeirClient({ baseUrl: platform.baseUrl, token: platform.token, timeoutMs: 15_000 });
  const giveUp = Date.now() + 60_000 + options.kills * 30_000 + options.events * 5;
  let next = 0;
  let retries = 0;
  const time = new Date();

  const sender = async (): Promise<void> => {
    for (let i = next++; i < options.events; i = next++) {
      const source = `/faults/${i % 97}`;
      const id = `event-${i}`;
      const data = randomBytes(64 + ((i * 7919) % 1_500));
      ledger.sent(source, id, data);
      const event = cloudEvent({ id, source, type: "weir.test.fault", time, data });
      for (;;) {
        try {
          await weir.ingest.createEvent({ event });
          ledger.acknowledged(source, id);
          break;
        } catch (error) {
          if (Date.now() > giveUp)
            throw new Error(`${source} ${id} was never acknowledged`, { cause: error });
          retries++;
          await sleep(100);
        }
      }
    }
  };

  const started = Date.now();
  const sending = Promise.all(Array.from({ length: options.senders }, sender));
  const killed = await killParts(platform, ledger, options, sending);
  await sending;
  const sent = Date.now();
  await untilStored(platform, giveUp);
  const verdict = await ledger.compare(platform.databaseUrl);
  return {
    ...verdict,
    killed,
    retries,
    sendingSeconds: (sent - started) / 1000,
    settlingSeconds: (Date.now() - sent) / 1000,
  };
}

/** Each kill comes when its share of the events is acknowledged, so that all of them fall into the sending. */
async function killParts(
  platform: Platform,
  ledger: { readonly acknowledgedCount: number },
  { events, kills, seed, say }: TortureOptions,
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
    // The first four hit each part once; then chance decides.
    const part = PARTS[kill < PARTS.length ? kill : Math.floor(random() * PARTS.length)] ?? "server";
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
