import { cpSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";

import { migrate } from "#postgres/migrate.ts";

import { createEmptyDatabase } from "../support/database.ts";
import { silentLogger } from "../support/logger.ts";
import { openDatabase } from "./fixture.ts";

const MIGRATIONS = join(import.meta.dirname, "../../migrations");

test("dead letters from before the bounds are cut as new ones are, and others stay", async () => {
  await using database = await createEmptyDatabase();
  const folder = mkdtempSync(join(tmpdir(), "migrations-"));
  try {
    for (const name of readdirSync(MIGRATIONS))
      if (name < "0014") cpSync(join(MIGRATIONS, name), join(folder, name));
    await migrate({ url: database.url, folder, logger: silentLogger });
  } finally {
    rmSync(folder, { recursive: true });
  }
  await using db = openDatabase(database.url);
  const insert = `insert into consumer.dead_letter (time, record_time, "offset", partition, attempt, group_id, topic, letter_topic,
    reason, detail, source, id, type, subject, principal) values (now(), now(), $1, 0, 0, 'g', 't', 'd', 'MALFORMED', $2, $2, $2, $2, $2, $2)`;
  const texts = ["a".repeat(256), "a".repeat(1_880_000), "é".repeat(5_000)];
  for (const [offset, text] of texts.entries()) await db.pool.query(insert, [offset, text]);
  await migrate({ url: database.url, logger: silentLogger });
  const { rows } = await db.pool.query<Record<string, string>>(
    'select detail, source, id, type, subject, principal from consumer.dead_letter order by "offset"',
  );
  const [same, ascii, other] = rows;
  expect(new Set(Object.values(same!))).toEqual(new Set([texts[0]]));
  expect(ascii).toMatchObject({
    source: `${"a".repeat(1_024)}…`,
    id: `${"a".repeat(512)}…`,
    type: `${"a".repeat(256)}…`,
  });
  for (const [name, bound] of Object.entries({
    detail: 2_048,
    source: 1_024,
    id: 512,
    type: 256,
    subject: 1_024,
    principal: 1_024,
  })) {
    expect(other![name]).toMatch(/^é+…$/);
    expect(Buffer.byteLength(other![name]!)).toBeLessThanOrEqual(bound + 3);
  }
});
