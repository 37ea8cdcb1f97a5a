import { expect, test } from "vitest";

import { type OutgoingRecord } from "#kafka/ports.ts";

import { type KeptLog } from "../kafka/broker.ts";
import { readTopic } from "../support/topic.ts";
import { accepted, type Bench, eventRecord, eventRecords, openBench, type Worker } from "./bench.ts";

const soon = { timeout: 20_000, interval: 50 };

/** Lets PostgreSQL raise a SQLSTATE for every row with this id. */
async function raiseFor(bench: Bench, id: string, sqlstate: string): Promise<void> {
  await bench.db.pool.query(`
    create or replace function public.refuse() returns trigger language plpgsql as $$
      begin
        if new.id = '${id}' then raise exception using errcode = '${sqlstate}', message = 'told to'; end if;
        return new;
      end $$;
    create or replace trigger refuse before insert on events.event for each row execute function public.refuse()`);
}

const cure = (bench: Bench): Promise<unknown> => bench.db.pool.query("drop function public.refuse cascade");

/** The offsets of the records that are in the dead-letter topic, with their reasons. */
async function letters(bench: Bench): Promise<string[]> {
  const records = await readTopic(bench.broker.connection.brokers.join(","), bench.deadLetters);
  return records.map(({ value }) => {
    const { data } = JSON.parse(String(value)) as { data: { offset: number; reason: string } };
    return `${data.offset} ${data.reason}`;
  });
}

/** The same, of their index. */
async function indexed(bench: Bench): Promise<string[]> {
  const { rows } = await bench.db.pool.query<{ what: string }>(
    `select "offset" || ' ' || reason as what from consumer.dead_letter order by "offset"`,
  );
  return rows.map(({ what }) => what);
}

async function rowsOf(bench: Bench, partition: number): Promise<number[]> {
  const { rows } = await bench.db.pool.query<{ at: number }>(
    `select "offset"::int as at from events.event where partition = $1 order by 1`,
    [partition],
  );
  return rows.map(({ at }) => at);
}

const POISON = "poison";
const poison = (bench: Bench, partition = 0): OutgoingRecord =>
  eventRecord(bench, accepted({ id: POISON }), partition);

const failed = (worker: Worker): Promise<number> =>
  worker.metric('weir_persist_batches_total{outcome="failed"}');

/** Each class of PostgreSQL's errors (appendix A of its manual) of which more than one fate is thinkable. */
const DATA: readonly (readonly [sqlstate: string, what: string])[] = [
  ["22000", "data exception"],
  ["22003", "numeric value out of range"],
  ["22021", "character not in repertoire"],
  ["22P02", "invalid text representation"],
  ["22P05", "untranslatable character"],
  ["54000", "program limit exceeded"],
  ["54001", "statement too complex"],
];

test.each(DATA)("%s (%s): the record alone is a dead letter, its neighbours are rows", async (sqlstate) => {
  await using bench = await openBench();
  await raiseFor(bench, POISON, sqlstate);
  await bench.publish(...eventRecords(bench, 5), poison(bench), ...eventRecords(bench, 4));
  await using worker = bench.work();
  await expect.poll(() => bench.committed(0), soon).toBe(10n);
  expect(await bench.checkpoint(0)).toBe(10n);
  expect(await rowsOf(bench, 0)).toEqual([0, 1, 2, 3, 4, 6, 7, 8, 9]);
  expect(await letters(bench)).toEqual(["5 UNPERSISTABLE"]);
  expect(await indexed(bench)).toEqual(["5 UNPERSISTABLE"]);
  // It was never tried again as it was: what was refused was found, and the rest is one batch.
  expect(await failed(worker)).toBe(1);
  expect(worker.role.fault).toBeUndefined();
});

const OTHER: readonly (readonly [sqlstate: string, what: string])[] = [
  ["08006", "connection failure"],
  ["22004", "null value not allowed"],
  ["22P03", "invalid binary representation"],
  ["23000", "integrity constraint violation"],
  ["23502", "not null violation, as of a schema that is newer"],
  ["23503", "foreign key violation"],
  ["23505", "unique violation, which is a duplicate"],
  ["23514", "check violation, which is how a missing partition shows"],
  ["23P01", "exclusion violation"],
  ["25006", "read-only transaction"],
  ["40001", "serialization failure"],
  ["40P01", "deadlock"],
  ["42501", "insufficient privilege"],
  ["42703", "undefined column"],
  ["53100", "disk full"],
  ["53200", "out of memory"],
  ["54011", "too many columns"],
  ["55P03", "lock not available"],
  ["57014", "query canceled"],
  ["57P03", "cannot connect now"],
  ["58030", "I/O error"],
  ["P0001", "raised by a program"],
  ["XX000", "internal error"],
  ["XX001", "data corrupted"],
];

test.each(OTHER)(
  "%s (%s): three tries, then the partition stops and nothing of it is skipped, until it is cured",
  async (sqlstate) => {
    await using bench = await openBench(2);
    await raiseFor(bench, POISON, sqlstate);
    const neighbours = [...eventRecords(bench, 2), poison(bench), ...eventRecords(bench, 2)];
    await bench.publish(...neighbours, ...eventRecords(bench, 3, 1));
    await using worker = bench.work();
    await expect.poll(() => bench.committed(1), soon).toBe(3n);
    const tried = (): KeptLog["lines"] =>
      worker.log.lines.filter(([, message]) => message.includes("is tried again"));
    await expect.poll(() => tried().length, soon).toBeGreaterThanOrEqual(3);
    expect(worker.persist.progress).toContainEqual(
      expect.objectContaining({ partition: 0, state: "stopped" }),
    );
    const tries = tried();
    expect(tries.slice(0, 3).map(([, message]) => message)).toEqual([
      "A batch could not be stored and is tried again",
      "A batch could not be stored and is tried again",
      "A partition cannot be consumed and is tried again",
    ]);
    // The first back-off is a second and up to a quarter more.
    expect(tries[2]![2]).toMatchObject({ partition: 0, failures: 1 });
    const { wait } = tries[2]![2] as { wait: number };
    expect(wait).toBeGreaterThanOrEqual(1_000);
    expect(wait).toBeLessThanOrEqual(1_250);
    expect(await bench.committed(0)).toBeUndefined();
    expect(await bench.checkpoint(0)).toBeUndefined();
    expect(await rowsOf(bench, 0)).toEqual([]);
    expect(await letters(bench)).toEqual([]);

    await cure(bench);
    await expect.poll(() => bench.committed(0), soon).toBe(5n);
    expect(await rowsOf(bench, 0)).toEqual([0, 1, 2, 3, 4]);
    expect(await indexed(bench)).toEqual([]);
  },
);

test("a good record behind a thousand that cannot be stored does not wait for a transaction of each", async () => {
  await using bench = await openBench();
  await raiseFor(bench, POISON, "22000");
  const many = Array.from({ length: 1_000 }, (_, index) =>
    eventRecord(bench, accepted({ id: POISON, source: `/${index}` })),
  );
  await bench.publish(...many, ...eventRecords(bench, 1));
  await using worker = bench.work();
  await expect.poll(() => bench.checkpoint(0), { timeout: 60_000, interval: 50 }).toBe(1_001n);
  // A transaction for each batch, and one that found out: none for each record.
  expect(await worker.metric('weir_persist_batches_total{outcome="stored"}')).toBeLessThan(10);
  expect(await rowsOf(bench, 0)).toEqual([1_000]);
  expect(await letters(bench)).toHaveLength(1_000);
  expect(await indexed(bench)).toHaveLength(1_000);
}, 90_000);

test("a batch that cannot be stored as one, though each of its records can, is stored in parts", async () => {
  await using bench = await openBench();
  await bench.db.pool.query(`
    create function public.refuse() returns trigger language plpgsql as $$
      begin
        if (select count(*) from written) > 3 then raise exception using errcode = '54000', message = 'too many'; end if;
        return null;
      end $$;
    create trigger refuse after insert on events.event referencing new table as written
      for each statement execute function public.refuse()`);
  await bench.publish(...eventRecords(bench, 10));
  await using _worker = bench.work();
  await expect.poll(() => bench.committed(0), soon).toBe(10n);
  expect(await rowsOf(bench, 0)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  expect(await indexed(bench)).toEqual([]);
});

test("poison is found at every position of a batch, whatever is beside it", async () => {
  const size = 7;
  await using bench = await openBench(size);
  await raiseFor(bench, POISON, "22000");
  const undecodable = (partition: number): OutgoingRecord => ({
    topic: bench.events,
    partition,
    key: null,
    value: null,
    headers: [],
    timestamp: Date.now(),
  });
  // On partition p the record that cannot be stored stands at p, and one that cannot be read at its mirror.
  const records = Array.from({ length: size }, (_, partition) =>
    Array.from({ length: size }, (_unused, offset) => {
      if (offset === partition)
        return eventRecord(bench, accepted({ id: POISON, source: `/${partition}` }), partition);
      if (offset === size - 1 - partition) return undecodable(partition);
      return eventRecords(bench, 1, partition)[0]!;
    }),
  );
  await bench.publish(...records.flat());
  await using _worker = bench.work();
  for (let partition = 0; partition < size; partition++) {
    await expect.poll(() => bench.committed(partition), soon).toBe(BigInt(size));
    const mirror = size - 1 - partition;
    const bad = new Set([partition, mirror]);
    const good = Array.from({ length: size }, (_, offset) => offset).filter((offset) => !bad.has(offset));
    expect(await rowsOf(bench, partition)).toEqual(good);
    const { rows } = await bench.db.pool.query<{ at: number; reason: string; found: boolean }>(
      `select "offset"::int as at, reason, letter_offset is not null and letter_topic = $2 as found
       from consumer.dead_letter where partition = $1 order by 1`,
      [partition, bench.deadLetters],
    );
    const expected = [{ at: partition, reason: "UNPERSISTABLE", found: true }];
    if (mirror !== partition) expected.push({ at: mirror, reason: "UNKNOWN_MODE", found: true });
    expect(rows).toEqual(expected.toSorted((a, b) => a.at - b.at));
  }
});

test("holes of the log among records are skips, whatever of the batch is refused", async () => {
  await using bench = await openBench();
  await raiseFor(bench, POISON, "22000");
  const abort = (...texts: string[]): Promise<void> =>
    bench.broker.transactions(
      bench.events,
      texts.map((text) => ["abort", text]),
    );
  // Each is a record that is given up, and a mark of it that comes by the time of the next one.
  await abort("a");
  await bench.publish(...eventRecords(bench, 2), poison(bench));
  await abort("b", "c");
  await bench.publish(...eventRecords(bench, 3));
  await abort("d");
  await using worker = bench.work();
  await expect.poll(() => bench.committed(0), soon).toBe(14n);
  const { rows } = await bench.db.pool.query<{ at: number; kind: string }>(
    `select generate_series(from_offset, to_offset - 1)::int as at, kind from consumer.skip
     union all select "offset"::int, reason from consumer.dead_letter
     union all select "offset"::int, 'row' from events.event order by at`,
  );
  expect(rows.map(({ at }) => at)).toEqual(Array.from({ length: 14 }, (_, at) => at));
  const kinds = Map.groupBy(rows, ({ kind }) => kind);
  expect(new Map([...kinds].map(([kind, found]) => [kind, found.length]))).toEqual(
    new Map([
      ["NO_RECORD", 8],
      ["UNPERSISTABLE", 1],
      ["row", 5],
    ]),
  );
  expect(await worker.metric('weir_persist_skipped_total{kind="NO_RECORD"}')).toBe(8);
});

test("a batch of nothing but poison of both kinds is all dead letters, and passed", async () => {
  await using bench = await openBench();
  await raiseFor(bench, POISON, "22000");
  const records = Array.from({ length: 6 }, (_, index): OutgoingRecord => {
    const record = eventRecord(bench, accepted({ id: POISON, source: `/${index}` }));
    return index % 2 === 0 ? record : { ...record, headers: [] };
  });
  await bench.publish(...records);
  await using _worker = bench.work();
  await expect.poll(() => bench.committed(0), soon).toBe(6n);
  expect(await bench.checkpoint(0)).toBe(6n);
  expect(await bench.rows()).toBe(0);
  const expected = records.map((_, at) => `${at} ${at % 2 === 0 ? "UNPERSISTABLE" : "UNKNOWN_MODE"}`);
  expect(await indexed(bench)).toEqual(expected);
  expect((await letters(bench)).toSorted()).toEqual(expected);
});

test("a record that PostgreSQL refuses waits for the dead-letter topic, and its partition with it", async () => {
  await using bench = await openBench(2);
  const missing = bench.broker.name("missing");
  await raiseFor(bench, POISON, "22000");
  await bench.publish(...eventRecords(bench, 2), poison(bench), ...eventRecords(bench, 2));
  await bench.publish(...eventRecords(bench, 3, 1));
  await using worker = bench.work({ deadLetters: missing });
  await expect.poll(() => bench.committed(1), soon).toBe(3n);
  await expect.poll(() => worker.role.fault, soon).toContain(missing);
  expect(await indexed(bench)).toEqual([]);
  // What stands before it may be stored by now; nothing after it is.
  expect((await rowsOf(bench, 0)).every((offset) => offset < 2)).toBe(true);
  expect((await bench.checkpoint(0)) ?? 0n).toBeLessThanOrEqual(2n);

  await bench.broker.topic(1, {}, missing);
  await expect.poll(() => bench.committed(0), { ...soon, timeout: 45_000 }).toBe(5n);
  expect(await rowsOf(bench, 0)).toEqual([0, 1, 3, 4]);
  expect(await indexed(bench)).toEqual(["2 UNPERSISTABLE"]);
}, 90_000);
