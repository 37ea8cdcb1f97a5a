import { expect, test } from "vitest";

import { endEntry, listEntries, startEntry } from "#postgres/audit.ts";

import { useDatabase } from "./fixture.ts";

const suite = useDatabase();

test("an entry is there from the start, has its result at the end, and entries are paged, newest first", async () => {
  const entry = {
    principal: "alice",
    method: "weir.admin.v1.Some/Method",
    resource: "things/\0",
    dryRun: true,
    detail: { request: { names: ["a\0", "\ud800"], limit: 3 } },
  };
  const ids = [await startEntry(suite.db, entry), await startEntry(suite.db, { ...entry, dryRun: false })];
  await endEntry(suite.db, ids[0]!, "OK", { outcome: { published: 2 } });
  const all = await listEntries(suite.db, { before: undefined, limit: 10 });
  const request = { names: ["a\ufffd", "\ufffd"], limit: 3 };
  expect(all).toMatchObject([
    { id: ids[1], result: "STARTED", dryRun: false, resource: "things/\ufffd", detail: { request } },
    {
      id: ids[0],
      result: "OK",
      dryRun: true,
      principal: "alice",
      detail: { request, outcome: { published: 2 } },
    },
  ]);
  expect(Number(all[0]!.time / 1_000n)).toBeCloseTo(Date.now(), -5);
  expect(await listEntries(suite.db, { before: ids[1], limit: 10 })).toEqual([all[1]]);
  expect(await listEntries(suite.db, { before: undefined, limit: 1 })).toEqual([all[0]]);
});
