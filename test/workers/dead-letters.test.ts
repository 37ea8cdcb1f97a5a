import { randomBytes } from "node:crypto";

import type { Message } from "kafkajs";
import { expect, test } from "vitest";

import { type DeadLetterReason, decodeDeadLetter } from "#core/dead-letter.ts";
import { kafkajs } from "#kafka/kafkajs/library.ts";
import { type OutgoingRecord, type ReceivedRecord, type RecordHeader } from "#kafka/ports.ts";

import { readTopic } from "../support/topic.ts";
import { accepted, type Bench, eventRecord, eventRecords, openBench } from "./bench.ts";

const soon = { timeout: 20_000, interval: 50 };

const text = (value: string): Uint8Array => Buffer.from(value);
const base64 = (value: Uint8Array | null): string | null =>
  value === null ? null : Buffer.from(value).toString("base64");

/** A record as somebody else may write it. */
function foreign(bench: Bench, content: Partial<OutgoingRecord>): OutgoingRecord {
  return {
    topic: bench.events,
    partition: 0,
    key: null,
    value: null,
    headers: [],
    timestamp: Date.now(),
    ...content,
  };
}

const CE: RecordHeader[] = [
  ["ce_specversion", text("1.0")],
  ["ce_id", text("1")],
  ["ce_source", text("/test")],
  ["ce_type", text("com.example.test")],
];

async function lettersOf(bench: Bench): Promise<readonly ReceivedRecord[]> {
  return readTopic(bench.broker.connection.brokers.join(","), bench.deadLetters);
}

const UNDECODABLE: readonly (readonly [reason: DeadLetterReason, content: Partial<OutgoingRecord>])[] = [
  ["UNKNOWN_MODE", { value: text("no event"), timestamp: 1_700_000_000_123 }],
  ["UNKNOWN_MODE", {}],
  ["MALFORMED", { headers: [["content-type", text("application/cloudevents+json")]], value: text('{"id":') }],
  [
    "INVALID_ATTRIBUTES",
    {
      key: new Uint8Array([0xff, 0x00]),
      headers: [
        ...CE,
        ["ce_time", text("yesterday")],
        ["twice", text("a")],
        ["twice", null],
        ["bytes", randomBytes(16)],
        ["weir-replay-attempt", text("2")],
      ],
      value: randomBytes(100),
    },
  ],
];

test("what cannot be decoded is a dead letter in the format of design § 9, and the offset moves on", async () => {
  await using bench = await openBench();
  const poison = UNDECODABLE.map(([, content]) => foreign(bench, content));
  const [before, after] = [eventRecords(bench, 1), eventRecords(bench, 1)];
  await bench.publish(...before, ...poison, ...after);
  const began = Date.now();
  await using worker = bench.work();
  await expect.poll(() => bench.committed(0), soon).toBe(6n);
  expect(await bench.checkpoint(0)).toBe(6n);
  expect(await bench.rows()).toBe(2);

  const letters = await lettersOf(bench);
  expect(letters).toHaveLength(UNDECODABLE.length);
  for (const [index, letter] of letters.entries()) {
    const [reason] = UNDECODABLE[index]!;
    const { key, headers, value, timestamp } = poison[index]!;
    const offset = index + 1;
    const id = `${bench.group}/${bench.events}/0/${offset}`;
    expect(String(letter.key)).toBe(id);
    expect(letter.headers).toEqual([["content-type", Buffer.from("application/cloudevents+json")]]);
    const event = JSON.parse(String(letter.value)) as Record<string, unknown>;
    expect(event).toEqual({
      specversion: "1.0",
      type: "weir.dead-letter.v1",
      source: `/weir/${bench.group}`,
      id,
      time: expect.any(String) as string,
      datacontenttype: "application/json",
      data: {
        reason,
        detail: expect.stringMatching(/\w/) as string,
        group: bench.group,
        topic: bench.events,
        partition: 0,
        offset,
        timestamp,
        attempt: headers.some(([name]) => name === "weir-replay-attempt") ? 2 : 0,
        key: base64(key),
        headers: headers.map(([name, content]) => [name, base64(content)]),
        value: base64(value),
      },
    });
    const time = Date.parse(event["time"] as string);
    expect(time).toBeGreaterThanOrEqual(began);
    expect(time).toBeLessThanOrEqual(Date.now());
  }
  expect(await worker.metric('weir_persist_records_total{outcome="dead_lettered"}')).toBe(4);
  expect(await worker.metric('weir_dead_letters_total{reason="UNKNOWN_MODE"}')).toBe(2);
  expect(await worker.metric('weir_dead_letters_total{reason="INVALID_ATTRIBUTES"}')).toBe(1);
});

test("a batch of nothing but poison moves the checkpoint, too", async () => {
  await using bench = await openBench();
  await bench.publish(foreign(bench, {}), foreign(bench, {}), foreign(bench, {}));
  await using _worker = bench.work();
  await expect.poll(() => bench.committed(0), soon).toBe(3n);
  expect(await bench.checkpoint(0)).toBe(3n);
  expect(await bench.rows()).toBe(0);
  expect(await lettersOf(bench)).toHaveLength(3);
});

test("what PostgreSQL cannot store is found among its neighbours, and only it is a dead letter", async () => {
  await using bench = await openBench();
  const good = eventRecords(bench, 60);
  // Random text is not compressed below what an index takes.
  const tooWide = (): OutgoingRecord =>
    eventRecord(bench, accepted({ source: `/${randomBytes(6_000).toString("hex")}` }));
  const [one, other] = [tooWide(), tooWide()];
  await bench.publish(
    ...good.slice(0, 17),
    one,
    ...good.slice(17, 40),
    foreign(bench, {}),
    other,
    ...good.slice(40),
  );
  await using worker = bench.work();
  await expect.poll(() => bench.committed(0), soon).toBe(63n);
  expect(await bench.checkpoint(0)).toBe(63n);
  expect(await bench.rows()).toBe(60);

  const letters = (await lettersOf(bench)).map(
    ({ value }) => (JSON.parse(String(value)) as { data: Letter }).data,
  );
  const unpersistable = letters.filter(({ reason }) => reason === "UNPERSISTABLE");
  expect(unpersistable.map(({ offset }) => offset)).toEqual([17, 42]);
  expect(unpersistable.map(({ value, headers }) => ({ value, headers }))).toEqual(
    [one, other].map(({ value, headers }) => ({
      value: base64(value),
      headers: headers.map(([name, content]) => [name, base64(content)]),
    })),
  );
  expect(unpersistable[0]!.detail).toMatch(/^PostgreSQL refused it: index row/);
  expect(letters).toHaveLength(3);
  expect(await worker.metric('weir_persist_records_total{outcome="dead_lettered"}')).toBe(3);
  expect(await worker.metric('weir_persist_records_total{outcome="written"}')).toBe(60);
  expect(await worker.metric('weir_persist_records_total{outcome="duplicate"}')).toBe(0);
});

interface Letter {
  readonly reason: DeadLetterReason;
  readonly detail: string;
  readonly offset: number;
  readonly headers: unknown;
  readonly value: string | null;
}

test.each<readonly [string, readonly RecordHeader[]]>([
  ["half a million headers of three bytes", Array.from({ length: 500_000 }, () => ["a", null] as const)],
  ["a name of control characters, each of which takes six", [["\u0001".repeat(1_900_000), text("x")]]],
])(
  "a record that grows far beyond its size as JSON becomes a dead letter whole: %s",
  async (_, headers) => {
    await using bench = await openBench();
    // Our own producer reckons with the longest form of every length, and would not take it.
    const kafka = new kafkajs.Kafka({
      brokers: [...bench.broker.connection.brokers],
      logLevel: kafkajs.logLevel.NOTHING,
    });
    const stranger = kafka.producer();
    await stranger.connect();
    const message = { key: null, value: null, headers, partition: 0 } as unknown as Message;
    await stranger.send({ topic: bench.events, messages: [message] });
    await stranger.disconnect();
    await bench.publish(...eventRecords(bench, 1));
    await using _worker = bench.work();
    await expect.poll(() => bench.committed(0), soon).toBe(2n);
    expect(await bench.rows()).toBe(1);
    const [letter, ...others] = await lettersOf(bench);
    expect(others).toEqual([]);
    const decoded = decodeDeadLetter(letter!.value!);
    expect(decoded.ok && decoded.value.headers.length).toBe(headers.length);
    expect(decoded.ok && decoded.value.headers[0]![0] === headers[0]![0]).toBe(true);
  },
  60_000,
);
