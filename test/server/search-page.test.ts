import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";

import { insertEvents } from "#postgres/events.ts";
import { transaction } from "#postgres/tx.ts";

import { openDatabase, sketchEvent } from "../postgres/fixture.ts";
import { startWeir, type Weir } from "../support/weir.ts";

// The commands of docs/search.md that ask SearchService, as they stand but for its port.

const ROOT = join(import.meta.dirname, "../..");
const PAGE = readFileSync(join(ROOT, "docs/search.md"), "utf8");
const COMMANDS = Array.from(
  PAGE.matchAll(/^(?:npx buf curl|curl) .*?(?=^```)/gms),
  ([command]) => command,
).filter((command) => command.includes("weir.v1.SearchService/"));

let weir: Weir;
beforeAll(async () => {
  weir = await startWeir();
  await using database = openDatabase(weir.databaseUrl);
  const order = sketchEvent({
    id: "order-1",
    source: "/shop",
    type: "com.acme.order.declined",
    extensions: new Map([["severitytext", "WARN"]]),
    data: new TextEncoder().encode('{"amount":120}'),
    offset: 0n,
  });
  await transaction(database, (tx) => insertEvents(tx, [order]));
});
afterAll(() => weir[Symbol.asyncDispose]());

test("there are some", () => expect(COMMANDS.length).toBeGreaterThanOrEqual(5));

test.each(COMMANDS)("%s", async (command) => {
  const { stdout } = await promisify(execFile)(
    "sh",
    ["-c", command.replace("npx ", "").replace("http://127.0.0.1:8080", weir.baseUrl)],
    {
      cwd: ROOT,
      env: {
        PATH: `${join(ROOT, "node_modules/.bin")}${delimiter}${process.env["PATH"] ?? ""}`,
        TOKEN: await weir.token(),
      },
    },
  );
  expect(JSON.stringify(JSON.parse(stdout))).toContain("events/%2Fshop:order-1");
});
