import { describe, expect, it } from "vitest";
import { type Logger } from "./log.ts";
import { observeProcess } from "./process-metrics.ts";
import { createTelemetry } from "./telemetry.ts";

/** A logger that keeps the errors' messages. */
function keepErrors(errors: string[]): Logger {
  const ignore = (): void => {};
  const log: Logger = {
    debug: ignore,
    info: ignore,
    warn: ignore,
    error: (message) => void errors.push(message),
    scope: () => log,
  };
  return log;
}

const samples = (body: string): readonly string[] =>
  body.split("\n").filter((line) => line !== "" && !line.startsWith("#"));

describe("createTelemetry", () => {
  it("shows counters, histograms and gauges on one page in Prometheus' format", async () => {
    await using telemetry = createTelemetry(keepErrors([]));
    telemetry.count("weir.dead_letters", { reason: "MALFORMED" });
    telemetry.count("weir.dead_letters", { reason: "MALFORMED" }, 2);
    telemetry.record(
      "weir.request.duration",
      { method: "weir.v1.IngestService/CreateEvent", code: "ok" },
      0.02,
    );
    telemetry.observe("weir.consumer.lag", () => [[{ group: "g", topic: "t", partition: 3 }, 5]]);

    const page = await telemetry.page();
    expect(page.contentType).toBe("text/plain; version=0.0.4; charset=utf-8");
    expect(page.body).toContain(
      "# HELP weir_dead_letters_total Records written to the dead-letter topic, by reason.\n",
    );
    expect(page.body).toContain("# TYPE weir_dead_letters_total counter\n");
    expect(samples(page.body)).toEqual(
      expect.arrayContaining([
        'weir_dead_letters_total{reason="MALFORMED"} 3',
        'weir_request_duration_count{method="weir.v1.IngestService/CreateEvent",code="ok"} 1',
        'weir_request_duration_bucket{method="weir.v1.IngestService/CreateEvent",code="ok",le="0.01"} 0',
        'weir_request_duration_bucket{method="weir.v1.IngestService/CreateEvent",code="ok",le="0.025"} 1',
        'weir_consumer_lag{group="g",topic="t",partition="3"} 5',
      ]),
    );
  });

  it("has no value for what no reader knows", async () => {
    await using telemetry = createTelemetry(keepErrors([]));
    telemetry.observe("weir.consumer.lag", () => []);
    expect(samples((await telemetry.page()).body)).toEqual([]);
  });

  it("asks every reader of a gauge, until it is disposed of", async () => {
    await using telemetry = createTelemetry(keepErrors([]));
    const reader = telemetry.observe("weir.database.connections", () => [
      [{ pool: "read", state: "idle" }, 1],
    ]);
    telemetry.observe("weir.database.connections", () => [[{ pool: "write", state: "idle" }, 2]]);
    expect(samples((await telemetry.page()).body)).toEqual([
      'weir_database_connections{pool="read",state="idle"} 1',
      'weir_database_connections{pool="write",state="idle"} 2',
    ]);
    reader[Symbol.dispose]();
    expect(samples((await telemetry.page()).body)).toEqual([
      'weir_database_connections{pool="write",state="idle"} 2',
    ]);
  });

  it("serves the page without a gauge whose reader throws, and logs it", async () => {
    const errors: string[] = [];
    await using telemetry = createTelemetry(keepErrors(errors));
    telemetry.observe("weir.search.waiting", () => {
      throw new Error("closed");
    });
    telemetry.observe("weir.streams.active", () => [[{}, 7]]);
    expect(samples((await telemetry.page()).body)).toEqual(["weir_streams_active 7"]);
    expect(errors).toEqual(["A gauge could not be read"]);
  });
});

describe("observeProcess", () => {
  it("shows memory, CPU time and the event loop's delay", async () => {
    await using telemetry = createTelemetry(keepErrors([]));
    using _ = observeProcess(telemetry);
    const page = (await telemetry.page()).body;
    const memory = Number(/^process_memory_usage (\d+)$/m.exec(page)?.[1]);
    expect(memory).toBeGreaterThan(10 * 1024 ** 2);
    expect(page).toMatch(/^process_cpu_time\{mode="user"\} \d+\.\d+$/m);
    expect(page).toMatch(/^nodejs_eventloop_delay\{statistic="max"\} \d/m);
  });
});
