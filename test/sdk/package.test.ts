import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "vite";
import { afterAll, beforeAll, expect, test } from "vitest";
import { installPackedSdk, readmeSnippets, type ScratchProject } from "./installed.ts";

/** What a page that publishes and searches may load for it, in bytes of gzip (most of it is Connect's own). */
const BROWSER_BUDGET = 42 * 1024;

let project: ScratchProject;
beforeAll(async () => {
  project = await installPackedSdk();
}, 120_000);
afterAll(() => project[Symbol.dispose]());

test("the tarball holds the build, the README and the licence, and nothing else", () => {
  const outside = project.packed.filter((path) => !/^dist\/(core|sdk)\/[\w/-]+(\.d\.ts|\.js)$/.test(path));
  expect(outside.sort()).toEqual(["LICENSE", "README.md", "package.json"]);
  // Only what a service of the SDK needs of the generated files: the server's own, such as reflection, stay out.
  const generated = project.packed.filter((path) => path.startsWith("dist/sdk/gen/") && path.endsWith(".js"));
  expect(generated).toEqual(
    expect.arrayContaining(["dist/sdk/gen/weir/v1/ingest_pb.js", "dist/sdk/gen/weir/v1/search_pb.js"]),
  );
  expect(
    generated.filter((path) => !/^dist\/sdk\/gen\/(weir|google\/rpc|io\/cloudevents)\//.test(path)),
  ).toEqual([]);
});

test("plain JavaScript uses it once it is installed", async () => {
  project.write(
    "plain.js",
    `import * as sdk from "@weir/sdk";
import { createWeirAdminClient } from "@weir/sdk/admin";
import { SearchService } from "@weir/sdk/gen/weir/v1/search_pb";
const event = sdk.cloudEvent({ id: "1", source: "/shop", type: "t", time: "2026-11-01T09:30:00Z", data: "grün" });
const weir = sdk.createWeirClient({ baseUrl: "http://127.0.0.1:1", token: "none" });
const error = await weir.ingest.createEvent({ event }).catch(sdk.weirErrorOf);
console.log(JSON.stringify([
  Object.keys(sdk), SearchService.typeName, new TextDecoder().decode(sdk.dataOf(event)),
  sdk.attributeOf(event, "time"), sdk.formatEventName("/shop", "1"), error.reason ?? "not Weir's", error.code,
  Object.keys(createWeirAdminClient({ baseUrl: "http://127.0.0.1:1", token: "none" })),
]));`,
  );
  expect(JSON.parse(await project.run("node", ["plain.js"]))).toEqual([
    [
      "IngestService",
      "PublishError",
      "SearchService",
      "Severity",
      "Stage",
      "Summary",
      "attributeOf",
      "cloudEvent",
      "createWeirClient",
      "dataOf",
      "formatCloudEvent",
      "formatEventName",
      "parseCloudEvent",
      "weirErrorOf",
    ],
    "weir.v1.SearchService",
    "grün",
    "2026-11-01T09:30:00Z",
    "events/%2Fshop:1",
    "not Weir's",
    expect.any(Number),
    ["accounting", "audit", "deadLetters", "overview"],
  ]);
});

test("a customer's TypeScript checks against it, in Node and in a browser", async () => {
  const snippets = readmeSnippets().map((snippet, index) => [`readme-${String(index)}.ts`, snippet] as const);
  for (const [name, snippet] of snippets) project.write(name, snippet);
  project.write("browser.ts", BROWSER_PAGE);
  project.write(
    "wrong.ts",
    `import { cloudEvent } from "@weir/sdk";\nexport const event = cloudEvent({ id: "1", source: "/", type: "t" });\n`,
  );
  const tsc = (file: string, ...args: string[]): Promise<string> =>
    project.run("tsc", ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2024", ...args, file]);
  const types = join(import.meta.dirname, "../../node_modules/@types");
  // Connect's declarations name HeadersInit, which Node's types lack; the browser's check below skips nothing.
  for (const [name] of snippets) {
    await tsc(name, "--lib", "es2024", "--types", "node", "--typeRoots", types, "--skipLibCheck");
  }
  await tsc("browser.ts", "--lib", "es2024,dom", "--types", "");
  await expect(tsc("wrong.ts", "--lib", "es2024,dom", "--types", "")).rejects.toMatchObject({
    stdout: expect.stringContaining("Property 'time' is missing") as string,
  });
});

test("a browser loads at most 42 KB for publishing and searching", async () => {
  project.write("browser.ts", BROWSER_PAGE);
  const built = await build({
    root: project.folder,
    configFile: false,
    logLevel: "silent",
    build: {
      write: false,
      modulePreload: false,
      rolldownOptions: { input: join(project.folder, "browser.ts"), preserveEntrySignatures: "strict" },
    },
  });
  if (!("output" in built)) throw new Error("one build was expected");
  const [chunk, ...more] = built.output;
  expect(more).toEqual([]);
  const size = gzipSync(chunk.code).byteLength;
  expect(size).toBeGreaterThan(20 * 1024);
  expect(size).toBeLessThanOrEqual(BROWSER_BUDGET);
});

/** A page that uses everything. */
const BROWSER_PAGE = `import { attributeOf, cloudEvent, createWeirClient, dataOf, formatEventName, PublishError, weirErrorOf } from "@weir/sdk";

export async function page(token: string): Promise<unknown> {
  const weir = createWeirClient({ baseUrl: location.origin, token: async () => token });
  const event = cloudEvent({ id: "1", source: "/shop", type: "t", time: new Date(), data: new Uint8Array([0xff]) });
  try {
    const publisher = weir.publisher({ onRefused: ({ reason }) => void reason });
    const receipt = await publisher.publish(event);
    await publisher.close();
    const found = await weir.search.getEvent({ name: formatEventName("/shop", "1") });
    const { events } = await weir.search.searchEvents({ pageSize: 10 });
    return [receipt.name, dataOf(found.event?.cloudEvent), events.map((e) => attributeOf(e.cloudEvent, "time"))];
  } catch (error) {
    return error instanceof PublishError ? error.answer?.violations : weirErrorOf(error)?.violations;
  }
}
`;
