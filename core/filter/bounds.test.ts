import { expect, test } from "vitest";

import { parseFilter } from "./parse.ts";
import { printFilter } from "./print.ts";
import { timeBounds } from "./time-bounds.ts";
import { type Field, type Filter } from "./tree.ts";
import { withoutField } from "./without-field.ts";

function filterOf(text: string): Filter {
  const parsed = parseFilter(text);
  if (!parsed.ok || parsed.value === undefined) throw new Error(`${text} is no filter`);
  return parsed.value;
}

const second = (text: string): bigint => BigInt(Date.parse(text)) * 1_000n;
const NOW = Date.parse("2026-11-30T10:00:00Z");
const [TEN, NINE] = [second("2026-11-30T10:00:00Z"), second("2026-11-30T09:00:00Z")];

test.each<[string, ReturnType<typeof timeBounds>]>([
  ["time = 2026-11-30T10:00:00Z", { from: TEN, before: TEN + 1n }],
  ["time >= now-1h time < now", { from: NINE, before: TEN }],
  ["time > now-1h time <= now", { from: NINE + 1n, before: TEN + 1n }],
  ["time > now-2h time > now-1h time < now time < now+1h", { from: NINE + 1n, before: TEN }],
  ["type = a (time >= now-1h source = b) time < now", { from: NINE, before: TEN }],
  ["(time >= now-1h OR time >= now) time < now", { from: NINE, before: TEN }],
  ["time >= now-1h OR type = a", {}],
  ["time >= now-1h OR time < now", {}],
  ["NOT time >= now", {}],
  ["receive_time >= now", {}],
  ["time:*", {}],
])("%s bounds the time", (text, bounds) => {
  expect(timeBounds(filterOf(text), NOW)).toEqual(bounds);
});

const TYPE: Field = { kind: "string", name: "type" };
const TENANT: Field = { kind: "extension", name: "tenant" };
test.each<[string, Field, string | undefined]>([
  ["type = a source = b", TYPE, "source = b"],
  ["type = a source = b subject = c", TYPE, "source = b subject = c"],
  ["(type = a OR type = b) NOT type = c type:* source = d", TYPE, "source = d"],
  ["type = a", TYPE, undefined],
  ["type = a OR type = b", TYPE, undefined],
  ["type = a OR source = b", TYPE, "type = a OR source = b"],
  ["(type = a OR source = b) subject = c", TYPE, "(type = a OR source = b) subject = c"],
  ["word type = a", TYPE, "word"],
  ["ext.tenant = a ext.region = b", TENANT, "ext.region = b"],
  ["severity >= WARN type = a", { kind: "severity" }, "type = a"],
  ["tags:a NOT tags:b type = a", { kind: "tags" }, "type = a"],
])("%s without what it says of %o by itself", (text, field, left) => {
  const found = withoutField(filterOf(text), field);
  expect(found && printFilter(found)).toBe(left && printFilter(filterOf(left)));
});
