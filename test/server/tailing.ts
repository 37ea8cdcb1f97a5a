import { type MessageInitShape } from "@bufbuild/protobuf";
import { afterAll, beforeAll } from "vitest";

import { type StoredEvent } from "#core/event.ts";
import {
  type TailEventsRequestSchema,
  type TailEventsResponse,
  type TailHeartbeat,
} from "#gen/weir/v1/tail_pb.ts";
import { type Event } from "#gen/weir/v1/event_pb.ts";
import { insertEvents } from "#postgres/events.ts";
import { type Database } from "#postgres/pool.ts";
import { createProgressHints } from "#postgres/progress-hints.ts";
import { transaction } from "#postgres/tx.ts";

import { type EventSketch, openDatabase, sketchEvent } from "../postgres/fixture.ts";
import { silentLogger } from "../support/logger.ts";
import { startWeir, type Weir, type WeirOptions } from "../support/weir.ts";
import { type Clients, createClients, type Protocol } from "./clients.ts";

/** What a tail is asked for. */
export type TailRequest = MessageInitShape<typeof TailEventsRequestSchema>;

/** A Weir without workers, whose store a test fills as a worker would: so it knows what was stored when. */
export interface TailSuite {
  readonly weir: Weir;
  readonly db: Database;
  readonly token: string;
  readonly clients: Clients;
  clientsBy(protocol: Protocol): Clients;
  /** Stores events at the next offsets of their partitions (0 unless said otherwise), with the checkpoints, in one transaction. */
  store(...sketches: readonly Partial<EventSketch>[]): Promise<readonly StoredEvent[]>;
  /** A metric of the server by its name with labels. */
  metric(name: string): Promise<number>;
}

/** A suite's Weir. */
export function useTails(options: WeirOptions = {}): TailSuite {
  let weir: Weir;
  let db: Database;
  let token: string;
  beforeAll(async () => {
    weir = await startWeir(options);
    db = openDatabase(weir.databaseUrl, { statementTimeoutMs: 60_000 });
    token = await weir.token();
  }, 60_000);
  afterAll(async () => {
    await db[Symbol.asyncDispose]();
    await weir[Symbol.asyncDispose]();
  });
  return {
    get weir() {
      return weir;
    },
    get db() {
      return db;
    },
    get token() {
      return token;
    },
    get clients() {
      return createClients(weir.baseUrl, token);
    },
    clientsBy: (protocol) => createClients(weir.baseUrl, token, protocol),
    store: createStore(() => ({ weir, db })),
    metric: async (name) => metricOf(weir, name),
  };
}

/** Stores events of a Weir as its worker would. */
export function createStore(suite: () => { readonly weir: Weir; readonly db: Database }): TailSuite["store"] {
  const ends = new Map<number, bigint>();
  return async (...sketches) => {
    const { weir, db } = suite();
    const { topic } = weir;
    const events = sketches.map((sketch) => {
      const { partition = 0 } = sketch;
      const offset = sketch.offset ?? ends.get(partition) ?? 0n;
      ends.set(partition, offset + 1n);
      return sketchEvent({ ...sketch, partition, topic, offset });
    });
    const touched = [...new Set(events.map(({ position }) => position.partition))];
    await transaction(db, async (tx) => {
      await insertEvents(tx, events);
      for (const partition of touched)
        await tx.query({
          text: `insert into consumer.checkpoint as held (group_id, topic, partition, owner, epoch, next_offset, high_water)
            values ($1, $2, $3, 'test', 1, $4, $4) on conflict (group_id, topic, partition)
            do update set next_offset = excluded.next_offset, high_water = excluded.high_water`,
          values: [groupOf(weir), topic, partition, ends.get(partition)],
        });
    });
    const hints = createProgressHints(db, silentLogger);
    for (const partition of touched) hints.passed(partition, ends.get(partition) ?? 0n);
    return events;
  };
}

/** The consumer group of a Weir of the harness. */
export function groupOf({ topic }: Pick<Weir, "topic">): string {
  return topic.replace("events", "persist");
}

async function metricOf({ baseUrl }: Pick<Weir, "baseUrl">, name: string): Promise<number> {
  const page = await (await fetch(`${baseUrl}/metrics`)).text();
  const line = page.split("\n").find((each) => each.startsWith(`${name} `));
  return line === undefined ? 0 : Number(line.slice(name.length));
}

/** A tail as a test reads it. */
export interface OpenTail extends AsyncDisposable {
  /** The cursor of the last message. */
  readonly cursor: string;
  /** The next message, of whichever kind. */
  next(): Promise<TailEventsResponse["message"]>;
  /** The next events, so many of them; heartbeats are passed by. */
  events(count: number): Promise<readonly Event[]>;
  /** The next heartbeat, where no event comes before it. */
  heartbeat(): Promise<TailHeartbeat>;
}

/** Opens a tail and reads its first message. */
export async function openTail(
  { tail }: Pick<Clients, "tail">,
  request: TailRequest = {},
): Promise<OpenTail> {
  const gone = new AbortController();
  const messages = tail.tailEvents(request, { signal: gone.signal })[Symbol.asyncIterator]();
  let cursor = "";
  let rest: Event[] = [];
  const next = async (): Promise<TailEventsResponse["message"]> => {
    const { value, done } = await messages.next();
    if (done === true) throw new Error("The tail has ended.");
    const { message } = value;
    if (message.value === undefined) throw new Error("A message says nothing.");
    ({ cursor } = message.value);
    return message;
  };
  const first = await next();
  if (first.case !== "opened") throw new Error(`The first message is ${String(first.case)}.`);
  return {
    get cursor() {
      return cursor;
    },
    next,
    async events(count) {
      const found = rest.splice(0, count);
      while (found.length < count) {
        const message = await next();
        if (message.case === "gap") throw new Error(`A gap of ${String(message.value.missed)}.`);
        if (message.case === "batch") found.push(...message.value.events);
      }
      rest = found.splice(count);
      return found;
    },
    async heartbeat() {
      const message = await next();
      if (message.case !== "heartbeat") throw new Error(`A message that is ${String(message.case)}.`);
      return message.value;
    },
    async [Symbol.asyncDispose]() {
      gone.abort();
      await messages.next().catch(() => undefined);
    },
  };
}

/** Where an event stands, as text. */
export function placeOf({ position }: Pick<Event, "position">): string {
  return `${String(position?.partition)}:${String(position?.offset)}`;
}

/** As {@link placeOf}, for what was stored. */
export function storedPlace({ position }: Pick<StoredEvent, "position">): string {
  return `${position.partition}:${position.offset}`;
}
