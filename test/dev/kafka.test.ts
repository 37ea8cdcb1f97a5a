import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";

import { cacheFolder, fetchKafkaJars } from "../../dev/kafka-jars.ts";
import { startKafka } from "../../dev/kafka.ts";
import { freePort } from "../../dev/ports.ts";

it(
  "keeps its data and its log in a folder of any name, whatever the locale",
  { timeout: 120_000 },
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "weir-kafka-"));
    const { LC_ALL } = process.env;
    process.env["LC_ALL"] = "C";
    try {
      const [dataDir, logDir] = [join(folder, "dü x", "kafka"), join(folder, "dü x", "lög")];
      const broker = await startKafka({
        jars: await fetchKafkaJars(cacheFolder(), { say: () => {} }),
        dataDir,
        logDir,
        port: await freePort(),
        controllerPort: await freePort(),
      });
      await broker.stop();
      expect(readdirSync(folder)).toEqual(["dü x"]);
      expect(existsSync(join(dataDir, "log", "meta.properties"))).toBe(true);
      expect(readFileSync(join(logDir, "kafka.log"), "utf8")).toContain("Kafka Server started");
    } finally {
      if (LC_ALL === undefined) delete process.env["LC_ALL"];
      else process.env["LC_ALL"] = LC_ALL;
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    }
  },
);

it("does not begin anew over topics", async () => {
  const folder = mkdtempSync(join(tmpdir(), "weir-kafka-"));
  const topic = join(folder, "log", "weir.events.v1-0");
  mkdirSync(topic, { recursive: true });
  const [port, controllerPort] = [await freePort(), await freePort()];
  await expect(
    startKafka({ jars: "/nowhere", dataDir: folder, logDir: folder, port, controllerPort }),
  ).rejects.toThrow(
    `${join(folder, "log")} holds topics, but no meta.properties: move it away to begin anew.`,
  );
  expect(existsSync(topic)).toBe(true);
  rmSync(folder, { recursive: true });
});
