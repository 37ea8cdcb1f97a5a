import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

import { renderSchema } from "#postgres/schema-snapshot.ts";

import { useDatabase } from "./fixture.ts";

const suite = useDatabase();

test("the schema is the one that was reviewed", async () => {
  await expect(
    await renderSchema(suite.db),
    "where the change is meant, refresh it: npx vitest run test/postgres/schema.test.ts --update",
  ).toMatchFileSnapshot(fileURLToPath(new URL("../../postgres/schema.snapshot.txt", import.meta.url)));
});

test("nothing of the schema is left out: an object of any kind shows", async () => {
  let before = await renderSchema(suite.db);
  const changes = [
    "create view events.seen as select 1 as one",
    "create function events.one() returns int language sql as 'select 1'",
    "create type events.mood as enum ('good')",
    "create sequence events.numbers",
    "alter table events.event alter column data set storage external",
    "create trigger noticed before update on events.event for each row execute function suppress_redundant_updates_trigger()",
    "create index another on consumer.checkpoint (owner)",
  ];
  const unseen: string[] = [];
  for (const change of changes) {
    await suite.db.pool.query(change);
    const after = await renderSchema(suite.db);
    if (after === before) unseen.push(change);
    before = after;
  }
  expect(unseen).toEqual([]);
});
