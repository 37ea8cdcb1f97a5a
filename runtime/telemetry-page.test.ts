import { expect, it } from "vitest";
import { type Logger } from "./log.ts";
import { COUNTERS, GAUGES, HISTOGRAMS } from "./instruments.ts";
import { createTelemetry } from "./telemetry.ts";
import { telemetryPage } from "./telemetry-page.ts";

const page = telemetryPage();
const rows = [...page.matchAll(/^\| `((?:weir|process|nodejs)\.[\w.]+)` \|/gm)].map(([, name]) => name ?? "");

it("has a row for every instrument and a section for every span", () => {
  const names = [COUNTERS, HISTOGRAMS, GAUGES].flatMap((instruments) => Object.keys(instruments));
  expect(rows.filter((name) => names.includes(name))).toEqual(names);
  expect([...page.matchAll(/^### (\w+): (\w+), /gm)].map(([, name, kind]) => `${name} ${kind}`)).toEqual([
    "rpc SERVER",
    "http SERVER",
    "publish PRODUCER",
    "consume CONSUMER",
    "transaction CLIENT",
  ]);
});

it("names metrics as Prometheus' page does, by the rule that it gives", async () => {
  const log: Logger = { debug() {}, info() {}, warn() {}, error() {}, scope: () => log };
  await using telemetry = createTelemetry(log);
  telemetry.count("weir.ingest.events", { protocol: "rpc", outcome: "accepted" });
  telemetry.record("weir.publish.duration", { topic: "events" }, 0.1);
  using _gauge = telemetry.observe("process.memory.usage", () => [[{}, 1]]);
  const { body } = await telemetry.page();
  const shown = [...body.matchAll(/^# TYPE (\w+)/gm)].map(([, name]) => name);
  expect(shown).toEqual(["weir_ingest_events_total", "weir_publish_duration", "process_memory_usage"]);
});
