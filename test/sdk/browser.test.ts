import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { type AddressInfo } from "node:net";
import { join } from "node:path";

import { type Browser, chromium } from "playwright-core";
import { build } from "vite";
import { afterAll, beforeAll, expect, test, type TestContext } from "vitest";

import { startWeir, type Weir } from "../support/weir.ts";
import type * as page from "./page.ts";

let browser: Browser | undefined;
let site: Server;
let port: number;
let weir: Weir;
beforeAll(async () => {
  const script = await bundle();
  site = createServer((request, response) => {
    const isScript = request.url === "/page.js";
    response.setHeader("content-type", isScript ? "text/javascript" : "text/html");
    response.end(
      isScript
        ? script
        : '<script type="module">window.page = await import("/page.js")</script><title>A page</title>',
    );
  }).listen(0);
  await once(site, "listening");
  ({ port } = site.address() as AddressInfo);
  [browser, weir] = await Promise.all([
    launch(),
    startWeir({ workers: true, env: { WEIR_CORS_ORIGINS: `http://127.0.0.1:${String(port)}` } }),
  ]);
}, 120_000);
afterAll(async () => {
  await browser?.close();
  site.close();
  await weir[Symbol.asyncDispose]();
});

/** The page's code, as a browser loads it. */
async function bundle(): Promise<string> {
  const built = await build({
    configFile: false,
    logLevel: "silent",
    build: {
      write: false,
      modulePreload: false,
      rolldownOptions: { input: join(import.meta.dirname, "page.ts"), preserveEntrySignatures: "strict" },
    },
  });
  if (!("output" in built)) throw new Error("one build was expected");
  return built.output[0].code;
}

/**
 * A Chromium: the one that WEIR_TEST_CHROMIUM names by its path, else the one in an npm package, which is for Linux on
 * x64 alone.
 */
async function launch(): Promise<Browser | undefined> {
  // As root there is no sandbox. The package's own arguments would switch off what CORS is for.
  const args = ["--no-sandbox"];
  const installed = process.env["WEIR_TEST_CHROMIUM"];
  if (installed !== undefined) return await chromium.launch({ executablePath: installed, args });
  if (process.platform !== "linux" || process.arch !== "x64") return undefined;
  const { default: packaged } = await import("@sparticuz/chromium");
  return await chromium.launch({ executablePath: await packaged.executablePath(), args });
}

/** Calls a function of the page in a new tab at a host name, which is the origin. */
async function call(
  name: keyof typeof page,
  host: string,
  skip: TestContext["skip"],
): Promise<page.Seen | string> {
  if (browser === undefined) {
    const note = "There is no Chromium for this platform: set WEIR_TEST_CHROMIUM to the path of one.";
    process.stderr.write(`SKIPPED: ${note}\n`);
    skip(note);
    throw new Error("not reached");
  }
  await using context = await browser.newContext();
  const tab = await context.newPage();
  await tab.goto(`http://${host}:${String(port)}/`);
  await tab.waitForFunction("window.page !== undefined");
  const args = JSON.stringify([weir.baseUrl, await weir.token({ scope: "events.write events.read" })]);
  return await tab.evaluate<page.Seen | string>(`window.page.${name}(...${args})`);
}

test("a page of another origin publishes, searches and reads back", async ({ skip }) => {
  expect(await call("publishAndFind", "127.0.0.1", skip)).toEqual({
    acknowledged: 1_000,
    refused: ["refused TIME_OUT_OF_WINDOW"],
    found: [0x00, 0xff, 0xc3, 0x28],
    isListed: true,
  });
}, 60_000);

test("a page of an origin that Weir does not know learns that it does not reach it", async ({ skip }) => {
  expect(await call("publishFromAfar", "localhost", skip)).toBe("unknown UNREACHABLE");
}, 60_000);
