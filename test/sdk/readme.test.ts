import { afterAll, beforeAll, expect, test } from "vitest";

import { startWeir, type Weir } from "../support/weir.ts";
import { installPackedSdk, readmeSnippets, type ScratchProject } from "./installed.ts";

// The snippets of the README run as they stand, in a customer's project, against a real Weir.

const [first, second, third, ...more] = readmeSnippets();

let project: ScratchProject;
let weir: Weir;
beforeAll(async () => {
  project = await installPackedSdk();
  weir = await startWeir({ workers: true });
}, 120_000);
afterAll(async () => {
  project[Symbol.dispose]();
  await weir[Symbol.asyncDispose]();
});

async function run(snippet = ""): Promise<readonly string[]> {
  project.write("snippet.ts", snippet);
  const env = { WEIR_URL: weir.baseUrl, WEIR_TOKEN: await weir.token({ scope: "events.write events.read" }) };
  return (await project.run("node", ["snippet.ts"], env)).trimEnd().split("\n");
}

test("there are three", () => expect(more).toEqual([]));

test("an event is published and read back", async () => {
  const lines = await run(first);
  expect(lines).toEqual([
    expect.stringMatching(/^accepted: events\/%2Fshop:[0-9a-f-]{36}$/),
    'stored: {"amount":120,"currency":"EUR"}',
    `newest: ${lines[0]!.slice("accepted: ".length)}`,
  ]);
});

test("many are published, and the one that is too old is told", async () => {
  expect(await run(second)).toEqual([
    expect.stringMatching(
      /^TIME_OUT_OF_WINDOW Event "[0-9a-f-]{36}" of "\/thermometers" was not published: /,
    ),
    "acknowledged: 999",
  ]);
});

test("events are found by a filter, counted and exported", async () => {
  const [newest, inAll, ...exported] = await run(third);
  expect(newest).toMatch(/^newest: events\/%2Fshop:[0-9a-f-]{36}$/);
  expect(inAll).toBe("in all: 1, of com.acme.order.placed");
  const events = exported.map((line) => JSON.parse(line) as { id: string; data: unknown });
  expect(events).toMatchObject([
    { id: newest!.slice(-36), type: "com.acme.order.placed", data: { amount: 120, currency: "EUR" } },
  ]);
});
