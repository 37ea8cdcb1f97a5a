import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";

import { freePort, rememberedPorts, whyNotFree } from "./ports.ts";

let folder: string;
let file: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "weir-ports-"));
  file = join(folder, "ports.json");
});

afterEach(() => rmSync(folder, { recursive: true }));

it("are the same the next time, and no two alike", async () => {
  const ports = await rememberedPorts(file, ["kafka", "postgres"]);
  expect(ports.kafka).not.toBe(ports.postgres);
  expect(await rememberedPorts(file, ["kafka", "postgres"])).toEqual(ports);
});

it("are chosen anew where one is busy by now", async () => {
  const { kafka, postgres } = await rememberedPorts(file, ["kafka", "postgres"]);
  const other = createServer().listen(kafka, "127.0.0.1");
  await once(other, "listening");
  expect(await whyNotFree(kafka, "127.0.0.1")).toBe("EADDRINUSE");
  const again = await rememberedPorts(file, ["kafka", "postgres"]);
  expect(again.kafka).not.toBe(kafka);
  expect(again.postgres).toBe(postgres);
  other.close();
  await once(other, "close");
});

it("are chosen anew where they are promised to others, who do not listen yet", async () => {
  const { kafka } = await rememberedPorts(file, ["kafka"]);
  expect((await rememberedPorts(file, ["kafka"], [kafka])).kafka).not.toBe(kafka);
});

it("are chosen anew where the file says the same port twice, or nothing that makes sense", async () => {
  const port = await freePort();
  writeFileSync(file, JSON.stringify({ kafka: port, postgres: port }));
  const ports = await rememberedPorts(file, ["kafka", "postgres"]);
  expect(ports.kafka).toBe(port);
  expect(ports.postgres).not.toBe(port);
  writeFileSync(file, '{"kafka": "no"');
  expect((await rememberedPorts(file, ["kafka"])).kafka).toBeGreaterThan(0);
});
