import { expect, test } from "vitest";

import { startWeir } from "../support/weir.ts";
import { installPackedSdk, readmeSnippet } from "./installed.ts";

test("the README's snippet runs as it stands, in a customer's project, against a real Weir", async () => {
  using project = await installPackedSdk();
  await using weir = await startWeir({ workers: true });
  project.write("snippet.ts", readmeSnippet());
  const env = { WEIR_URL: weir.baseUrl, WEIR_TOKEN: await weir.token({ scope: "events.write events.read" }) };
  const lines = (await project.run("node", ["snippet.ts"], env)).trimEnd().split("\n");
  expect(lines).toEqual([
    expect.stringMatching(/^accepted: events\/%2Fshop:[0-9a-f-]{36}$/),
    'stored: {"amount":120,"currency":"EUR"}',
    `newest: ${lines[0]!.slice("accepted: ".length)}`,
  ]);
}, 120_000);
