import { beforeAll, describe, expect, test } from "vitest";

import { parseFilter } from "#core/filter/parse.ts";
import { type Filter } from "#core/filter/tree.ts";
import {
  countLetters,
  findLetters,
  type IndexedLetter,
  LETTER_FIELDS,
  type LetterSelection,
  markingReplayed,
  scanStatement,
  selectLetters,
} from "#postgres/dead-letters.ts";
import { type Database } from "#postgres/pool.ts";

import { useDatabase } from "./fixture.ts";

const suite = useDatabase();

/** A hundred thousand letters of one group over three days, ten to an instant, and a few of others. */
const MANY = 100_000;

beforeAll(async () => {
  await suite.db.pool.query(`
    insert into consumer.dead_letter (time, record_time, "offset", partition, attempt, value_size, group_id, topic,
      letter_topic, letter_partition, letter_offset, reason, detail, preview, replayed_at)
    select timestamptz '2026-11-01T00:00:00Z' + (n / 10) * interval '25 seconds', '2026-11-01', n / 12, n % 12, 0, 600, 'big', 'events',
      'dlq', n % 3, n / 3, case when n % 20000 = 7 then 'UNPERSISTABLE' else 'MALFORMED' end, 'no. ' || n,
      decode(repeat('ab', 512), 'hex'), case when n % 20000 = 7 then null else now() end
    from generate_series(0, ${MANY - 1}) n`);
  await suite.db.pool.query(`
    insert into consumer.dead_letter (time, record_time, "offset", partition, attempt, group_id, topic, letter_topic, reason, detail)
    select '2026-11-01T00:00:00Z', '2026-11-01', n, 0, 0, 'small', 'events', 'dlq', 'MALFORMED', '' from generate_series(0, 4) n`);
  await suite.db.pool.query(`
    insert into consumer.dead_letter (time, record_time, "offset", partition, attempt, group_id, topic, letter_topic, reason, detail,
      source, id, type, subject)
    values ('2026-11-03T23:30:00Z', '2026-11-02', 1, 7, 0, 'named', 'events', 'dlq', 'UNPERSISTABLE', 'a', '/shop', '1', 'com.a.x', 's'),
      ('2026-11-03T22:30:00Z', '2026-11-01', 2, 7, 0, 'named', 'events', 'dlq', 'UNPERSISTABLE', 'b', '/shop', '2', 'com.a.y', null),
      ('2026-11-03T21:30:00Z', '2026-11-01', 3, 8, 0, 'named', 'events', 'dlq', 'MALFORMED', 'c', null, null, null, null)`);
  await suite.db.pool.query(`
    insert into consumer.foreign_letter (time, "offset", partition, value_size, topic, why, key_preview, preview) values
      ('2026-11-01T00:00:10Z', 5, 0, 3, 'dlq', 'no JSON', 'k', 'abc'), ('2100-01-01', 6, 1, null, 'dlq', 'no value', null, null),
      ('2026-11-01T00:00:10Z', 7, 0, 3, 'other', 'of another', null, null)`);
  await suite.db.pool.query("analyze consumer.dead_letter; analyze consumer.foreign_letter");
}, 60_000);

function selection(of: Partial<LetterSelection> = {}): LetterSelection {
  return {
    group: "big",
    letterTopic: "dlq",
    order: "newest",
    reason: undefined,
    filter: undefined,
    now: Date.UTC(2026, 10, 4),
    unreplayed: false,
    after: undefined,
    limit: 50,
    until: performance.now() + 60_000,
    ...of,
  };
}

/** Three letters, two of them of events. */
const NAMED = { group: "named", letterTopic: "none" };

function filterOf(text: string): Filter | undefined {
  const parsed = parseFilter(text, LETTER_FIELDS);
  if (!parsed.ok) throw new Error(parsed.faults[0].description);
  return parsed.value;
}

async function everyPage(db: Database, of: LetterSelection): Promise<readonly IndexedLetter[]> {
  const letters: IndexedLetter[] = [];
  for (let { after } = of; ;) {
    const page = await selectLetters(db, { ...of, after });
    letters.push(...page.letters);
    if (page.next === undefined) return letters;
    after = page.next;
  }
}

/** After the first ones. */
const PASSED = { time: 1_793_491_300_000_000n, topic: "", partition: 0, offset: 0n };

const placeOf = ({ topic, partition, offset }: IndexedLetter): string => `${topic}/${partition}/${offset}`;

async function explain(of: LetterSelection, chunk: number): Promise<string> {
  const { text, values } = scanStatement(of, chunk);
  const { rows } = await suite.db.pool.query<{ "QUERY PLAN": string }>({
    text: `explain ${text}`,
    ...(values && { values }),
  });
  return rows.map((row) => row["QUERY PLAN"]).join("\n");
}

describe("a selection", () => {
  test.each(["newest", "oldest"] as const)("gives every letter once, the %s first", async (order) => {
    const letters = await everyPage(suite.db, selection({ order, limit: 1_777 }));
    expect(letters).toHaveLength(MANY + 2);
    expect(new Set(letters.map(placeOf)).size).toBe(MANY + 2);
    const sign = order === "oldest" ? 1 : -1;
    const isOrdered = (a: IndexedLetter, b: IndexedLetter): boolean =>
      a.time === b.time
        ? a.topic < b.topic ||
          a.partition < b.partition ||
          (a.partition === b.partition && a.offset < b.offset)
        : (a.time < b.time ? -1 : 1) === -sign;
    expect(letters.findIndex((letter, at) => at > 0 && !isOrdered(letters[at - 1]!, letter))).toBe(-1);
  });

  test("ends with its last page, without an empty one after it", async () => {
    const first = await selectLetters(suite.db, selection({ group: "small", letterTopic: "none", limit: 5 }));
    expect(first).toMatchObject({ scanned: 5, truncated: false, next: undefined });
    expect(first.letters).toHaveLength(5);
    const none = await selectLetters(suite.db, selection({ group: "none", letterTopic: "none" }));
    expect(none).toEqual({ letters: [], scanned: 0, truncated: false, next: undefined });
  });

  test("of a reason looks at no others", async () => {
    const of = selection({ reason: "UNPERSISTABLE", limit: 3 });
    const page = await selectLetters(suite.db, of);
    expect(page.letters.map(({ detail }) => detail)).toEqual(["no. 80007", "no. 60007", "no. 40007"]);
    expect(page).toMatchObject({ scanned: 3, truncated: false });
    const rest = await selectLetters(suite.db, { ...of, after: page.next });
    expect(rest.letters.map(({ detail }) => detail)).toEqual(["no. 20007", "no. 7"]);
    expect(rest).toMatchObject({ scanned: 2, next: undefined });
  });

  test.each([
    ['id = "1"', ["a"]],
    ["source = /shop type != com.a.x", ["b"]],
    ['type = "com.*.y" OR subject >= "s"', ["a", "b"]],
    ["-subject:*", ["b", "c"]],
    ["time >= now-1h", ["a"]],
    ["time:* NOT time < 2026-11-03T22:00:00Z", ["a", "b"]],
    ["receive_time < 2026-11-02T00:00:00Z receive_time:*", ["b", "c"]],
    ["partition = 7 offset > 1", ["b"]],
    ['id = "1\\u0001" OR offset > 99999999999999999999', []],
  ])("of the filter %s takes those alone", async (text, details) => {
    const { letters } = await selectLetters(suite.db, selection({ ...NAMED, filter: filterOf(text) }));
    expect(letters.map(({ detail }) => detail)).toEqual(details);
  });

  test("of a filter has foreign letters too, and goes on page by page", async () => {
    const filter = filterOf("partition < 2 time >= 2026-11-01T00:00:10Z offset < 30");
    const of = selection({ filter, order: "oldest", limit: 7 });
    const all = await everyPage(suite.db, of);
    const byHand = (await everyPage(suite.db, { ...of, filter: undefined, limit: MANY })).filter(
      ({ partition, time, offset }) => partition < 2 && time >= 1_793_491_210_000_000n && offset < 30n,
    );
    expect(all.map(placeOf)).toEqual(byHand.map(placeOf));
    expect(all.map(({ detail }) => detail)).toEqual(expect.arrayContaining(["no JSON", "no value"]));
    expect(all.length).toBeGreaterThan(14);
  });

  test("filters before the limit, and says how many it looked at", async () => {
    const of = selection({ unreplayed: true, order: "oldest", limit: 4 });
    const page = await selectLetters(suite.db, of);
    expect(page.letters.map(({ detail }) => detail)).toEqual(["no. 7", "no JSON", "no. 20007", "no. 40007"]);
    expect(page.scanned).toBeGreaterThan(40_000);
    expect(page.scanned).toBeLessThan(40_020);
    const rest = await selectLetters(suite.db, { ...of, after: page.next });
    expect(rest.letters.map(({ detail }) => detail)).toEqual(["no. 60007", "no. 80007", "no value"]);
    expect(rest.next).toBeUndefined();
    expect(page.scanned + rest.scanned).toBe(MANY + 2);
  });

  test("stops where time runs out, says so, and goes on from there", async () => {
    const of = selection({ unreplayed: true, order: "oldest", until: 0, after: PASSED });
    const page = await selectLetters(suite.db, of);
    expect(page).toMatchObject({ letters: [], scanned: 5_000, truncated: true });
    expect(page.next).toBeDefined();
    const all = await everyPage(suite.db, of);
    expect(all.map(({ detail }) => detail)).toEqual([
      ...[20007, 40007, 60007, 80007].map((n) => `no. ${n}`),
      "no value",
    ]);
  });

  test("has the foreign records of the topic among the letters, by their time", async () => {
    const [newest] = (await selectLetters(suite.db, selection({ limit: 1 }))).letters;
    expect(newest).toMatchObject({ group: "", reason: "", detail: "no value", valueSize: undefined });
    expect(newest!.letterPosition).toEqual({ topic: "dlq", partition: 1, offset: 6n });
    const oldest = (await selectLetters(suite.db, selection({ order: "oldest", limit: 11 }))).letters;
    expect(oldest.at(-1)).toMatchObject({ group: "", topic: "dlq", partition: 0, offset: 5n, valueSize: 3 });
    expect(String(oldest.at(-1)!.keyPreview)).toBe("k");
  });

  test.each(["newest", "oldest"] as const)(
    "reads a range of an index and nothing else, %s first",
    async (order) => {
      const after = { time: 1_793_600_000_000_000n, topic: "events", partition: 3, offset: 2_000n };
      const plans = [
        await explain(selection({ order }), 51),
        await explain(selection({ order, after }), 51),
        await explain(selection({ order, after, unreplayed: true }), 5_000),
      ];
      for (const plan of plans) {
        expect(plan).toContain("dead_letter_page_idx");
        expect(plan).not.toMatch(/Seq Scan on dead_letter/);
      }
      const ofReason = await explain(selection({ order, after, reason: "UNPERSISTABLE" }), 51);
      expect(ofReason).toContain("dead_letter_reason_page_idx");
      expect(ofReason).not.toMatch(/Seq Scan/);
    },
  );
});

describe("letters by name", () => {
  const names = [
    { group: "big", topic: "events", partition: 7, offset: 0n },
    { group: "small", topic: "events", partition: 0, offset: 4n },
    { group: "", topic: "dlq", partition: 0, offset: 5n },
    { group: "", topic: "events", partition: 0, offset: 0n },
    { group: "none", topic: "events", partition: 0, offset: 0n },
  ];

  test("are found, whatever their group, and others are absent", async () => {
    const found = await findLetters(suite.db, names);
    expect(found.map(({ group, offset }) => `${group}:${offset}`).toSorted()).toEqual([
      ":5",
      "big:0",
      "small:4",
    ]);
    expect(found.find(({ group }) => group === "big")).toMatchObject({
      reason: "UNPERSISTABLE",
      time: 1_793_491_200_000_000n,
      recordTime: 1_793_491_200_000_000n,
      replayTime: undefined,
      letterPosition: { topic: "dlq", partition: 1, offset: 2n },
      valueSize: 600,
    });
    expect(await findLetters(suite.db, [])).toEqual([]);
  });

  test("are marked when they were replayed, counted, and left out where those never replayed are wanted", async () => {
    const by = { principal: "alice", cause: "auditEntries/1" };
    for (const offset of [90n, 91n]) {
      const position = { topic: "events", partition: 0, offset };
      await suite.db.pool.query(markingReplayed([{ letter: names[1]!, attempt: 1, position }], by));
    }
    const [letter] = await findLetters(suite.db, [names[1]!]);
    expect(letter!.replays).toBe(2);
    expect(Number(letter!.replayTime! / 1_000n)).toBeCloseTo(Date.now(), -5);
    const of = { group: "small", topic: "events", letterTopic: "dlq" };
    expect(await countLetters(suite.db, of)).toEqual({
      partitions: [{ partition: 0, letters: 5n, replayed: 1n }],
      foreign: 2n,
    });
    const left = await selectLetters(suite.db, selection({ ...of, letterTopic: "none", unreplayed: true }));
    expect(left.letters.map(({ offset }) => offset)).toEqual([0n, 1n, 2n, 3n]);
    expect(left.scanned).toBe(5);
  });
});
