import { Reader, readRecordsBatch } from "@platformatic/kafka";
import fc from "fast-check";
import { expect, test } from "vitest";

import { BATCH_OVERHEAD, recordSize, SHARED_OVERHEAD } from "#core/record-size.ts";

import { encodeRecordBatch } from "./record-batch.ts";

// Whether brokers and the other client take them shows in test/kafka; here, what the library reads out of the bytes.

const bytes = fc.uint8Array({ maxLength: 200 });
const maybe = fc.option(bytes);
const record = fc.record({
  topic: fc.constant("t"),
  partition: fc.constant(0),
  key: maybe,
  value: maybe,
  headers: fc.array(fc.tuple(fc.string({ unit: "grapheme", maxLength: 40 }), maybe), { maxLength: 70 }),
  timestamp: fc.oneof(fc.integer({ min: 0, max: 1_000 }), fc.integer({ min: -(2 ** 42), max: 2 ** 42 })),
});
const records = fc.array(record, { minLength: 1, maxLength: 150 });
const state = { producerId: 4_000_000_000n, producerEpoch: 7, sequence: 2 ** 31 - 1 };

const plain = (part: Uint8Array | null): number[] | null => part && [...part];

test.each(["none", "gzip", "zstd"] as const)(
  "a record batch holds its records, compressed by %s",
  async (compression) => {
    await fc.assert(
      fc.asyncProperty(records, async (given) => {
        const batch = readRecordsBatch(Reader.from(await encodeRecordBatch(given, state, compression)));
        expect(batch).toMatchObject({
          magic: 2,
          attributes: { none: 0, gzip: 1, zstd: 4 }[compression],
          lastOffsetDelta: given.length - 1,
          firstTimestamp: BigInt(given[0]!.timestamp),
          maxTimestamp: BigInt(Math.max(...given.map(({ timestamp }) => timestamp))),
          producerId: state.producerId,
          producerEpoch: state.producerEpoch,
          firstSequence: state.sequence,
        });
        const read = batch.records.map((each) => ({
          offset: each.offsetDelta,
          timestamp: Number(batch.firstTimestamp + each.timestampDelta),
          key: plain(each.key),
          value: plain(each.value),
          headers: each.headers.map(([name, content]) => [String(name), plain(content)]),
        }));
        expect(read).toEqual(
          given.map(({ key, value, headers, timestamp }, offset) => ({
            offset,
            timestamp,
            key: plain(key),
            value: plain(value),
            headers: headers.map(([name, content]) => [name.toWellFormed(), plain(content)]),
          })),
        );
      }),
      { numRuns: 50 },
    );
  },
);

test("a record takes what it was reckoned to, and with others little more", async () => {
  await fc.assert(
    fc.asyncProperty(records, async (given) => {
      const alone = await encodeRecordBatch(given.slice(0, 1), state, "none");
      expect(alone.length).toBe(BATCH_OVERHEAD + recordSize(given[0]!));
      const together = await encodeRecordBatch(given, state, "none");
      const most = given.reduce((sum, each) => sum + recordSize(each) + SHARED_OVERHEAD, BATCH_OVERHEAD);
      expect(together.length).toBeLessThanOrEqual(most);
    }),
    { numRuns: 100 },
  );
});
