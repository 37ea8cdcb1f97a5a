import { cpSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";

import { MAX_EXPONENT, MAX_JSON_DEPTH, MAX_NUMBER_LENGTH, searchableForm } from "#core/searchable.ts";
import { INCOMPLETE_TERM, termsOf } from "#core/terms.ts";
import { encodeUtf8 } from "#core/utf8.ts";
import { migrate } from "#postgres/migrate.ts";
import { getEvent } from "#postgres/search.ts";

import { createEmptyDatabase } from "../support/database.ts";
import { silentLogger } from "../support/logger.ts";
import { openDatabase, sketchEvent } from "./fixture.ts";

const MIGRATIONS = join(import.meta.dirname, "../../migrations");
const nested = (depth: number): string => "[".repeat(depth) + "]".repeat(depth);

const PAYLOADS: readonly (readonly [
  data: string | Uint8Array | undefined,
  mediaType?: string,
  protoType?: string,
])[] = [
  [undefined],
  [""],
  ['{"a":{"b":[1,-2.5e-3,true,null]}}'],
  ['{"a":1}', "Application/Problem+JSON; charset=utf-8"],
  ['{"a":1}', "application/xml"],
  ['{"a":1}', "json"],
  ['{"a":1}', "application/json", "example.com/A"],
  ["{'a':1}"],
  ["\ufeff{}"],
  [String.raw`"\u0000"`],
  [String.raw`"\\u0000 \\" 1e999"`],
  [String.raw`"\ud83d"`],
  [String.raw`"\ud83d\ude00"`],
  [new Uint8Array([0x22, 0xff, 0x22])],
  [new Uint8Array([0x22, 0x00, 0x22])],
  [nested(MAX_JSON_DEPTH)],
  [nested(MAX_JSON_DEPTH + 1)],
  [nested(50_000)],
  [`[${"1".repeat(MAX_NUMBER_LENGTH)}]`],
  [`[${"1".repeat(MAX_NUMBER_LENGTH + 1)}]`],
  [`{"a":1e+00${MAX_EXPONENT}}`],
  [`{"a":1E-${MAX_EXPONENT + 1}}`],
  ["1e99999999999999999999"],
  ["plain words", "text/plain"],
  ["\ufeffplain", "TEXT/html;charset=utf-8"],
  [new Uint8Array([0x61, 0x00]), "text/plain"],
  [new Uint8Array([0xff]), "text/plain"],
];

test("rows from before search are found as others are: with the form of their payload, and by any search that asks", async () => {
  const events = PAYLOADS.map(([data, datacontenttype, protoType], index) => {
    const bytes = typeof data === "string" ? encodeUtf8(data) : data;
    const stored = sketchEvent({ offset: BigInt(index), id: `row ${index}`, datacontenttype, data: bytes });
    const payload = bytes && { bytes: new Uint8Array(bytes), protoType };
    return { ...stored, event: { ...stored.event, data: payload } };
  });
  await using database = await createEmptyDatabase();
  const folder = mkdtempSync(join(tmpdir(), "weir-migrations-"));
  const names = readdirSync(MIGRATIONS);
  const migrateUpTo = async (last: string): Promise<unknown> => {
    for (const name of names) if (name <= last) cpSync(join(MIGRATIONS, name), join(folder, name));
    return migrate({ url: database.url, folder, logger: silentLogger });
  };
  try {
    await migrateUpTo("0008");
    await using db = openDatabase(database.url);
    for (const { event, position } of events)
      await db.pool.query(
        `insert into events.event (occurred_at, receive_time, "offset", partition, topic, principal, data_size, source, id, type, time_text,
          datacontenttype, data_type_url, tags, extensions, data, terms)
        values ($1::text::timestamptz, now(), $2, 0, 'events', 'alice', 0, $3, $4, $5, $1::text, $6, $7, '{}', '{}', $8, $9)`,
        [
          event.time!.text,
          position.offset,
          event.source,
          event.id,
          event.type,
          event.datacontenttype,
          event.data?.protoType,
          event.data?.bytes,
          position.offset % 2n === 0n ? termsOf(event) : null,
        ],
      );
    await migrateUpTo("0009");
    const { rows } = await db.pool.query<{ data_form: string | null; terms: number[] }>(
      `select data_form, terms from events.event order by "offset"`,
    );
    expect(rows.map(({ data_form }) => data_form)).toEqual(
      events.map(({ event }) => searchableForm(event)?.[0] ?? null),
    );
    expect(rows.map(({ terms }) => terms)).toEqual(
      events.map(({ event }, index) => (index % 2 === 0 ? [...termsOf(event)] : [INCOMPLETE_TERM])),
    );
    for (const { event } of events)
      expect((await getEvent(db, { source: event.source, id: event.id }))?.event.event).toEqual(event);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
