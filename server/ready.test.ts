import { afterEach, describe, expect, it } from "vitest";
import { type Logger, type LogFields } from "#runtime/log.ts";
import { type Probe } from "#runtime/service.ts";
import { createReadiness, isServing, type Readiness } from "./ready.ts";

const INGEST = "weir.v1.IngestService";
const SEARCH = "weir.v1.SearchService";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

interface Setup {
  readonly readiness: Readiness;
  readonly stop: AbortController;
  readonly lines: (LogFields | undefined)[];
}

async function watch(kafka: Probe, postgresql: Probe, note?: string): Promise<Setup> {
  const lines: (LogFields | undefined)[] = [];
  const line = (_: string, fields?: LogFields): void => void lines.push(fields);
  const stop = new AbortController();
  const readiness = createReadiness({
    dependencies: { kafka, postgresql },
    services: { [INGEST]: ["kafka"], [SEARCH]: ["postgresql"] },
    notes: { kafka: () => note },
    stopping: stop.signal,
    log: { info: line, warn: line } as Logger,
  });
  const end = new AbortController();
  const done = readiness.run(end.signal);
  stack.defer(() => done);
  stack.defer(() => end.abort());
  await readiness.ready;
  return { readiness, stop, lines };
}

const well: Probe = () => undefined;

describe("readiness", () => {
  it("is whole while every dependency is well", async () => {
    const { readiness } = await watch(well, async () => undefined, "one copy");
    expect(readiness.report).toEqual({
      status: "ready",
      services: {
        [INGEST]: { ready: true, dependencies: ["kafka"], reasons: [] },
        [SEARCH]: { ready: true, dependencies: ["postgresql"], reasons: [] },
      },
      dependencies: { kafka: { ready: true, note: "one copy" }, postgresql: { ready: true } },
    });
    expect(isServing(readiness.report)).toBe(true);
  });

  it("is not there before the first look", () => {
    const readiness = createReadiness({
      dependencies: { kafka: well },
      services: { [INGEST]: ["kafka"] },
      stopping: new AbortController().signal,
      log: {} as Logger,
    });
    expect(readiness.of(INGEST)).toEqual({
      ready: false,
      dependencies: ["kafka"],
      reasons: ["kafka: was not reached yet"],
    });
  });

  it("keeps ingest while PostgreSQL alone is away", async () => {
    const { readiness } = await watch(well, () => "connection refused");
    expect(readiness.of(INGEST)?.ready).toBe(true);
    expect(readiness.of(SEARCH)).toMatchObject({ ready: false, reasons: ["postgresql: connection refused"] });
    expect(readiness.report.status).toBe("partial");
    expect(isServing(readiness.report)).toBe(true);
  });

  it("takes a probe that throws for a dependency that is away", async () => {
    const { readiness } = await watch(
      () => Promise.reject(new Error("no broker")),
      () => {
        throw new Error("no database");
      },
    );
    expect(readiness.report).toMatchObject({
      status: "not_ready",
      dependencies: { kafka: { reason: "no broker" }, postgresql: { reason: "no database" } },
    });
    expect(isServing(readiness.report)).toBe(false);
  });

  it("does not wait for ever for a probe that hangs", async () => {
    const { readiness } = await watch(well, () => new Promise(() => undefined));
    expect(readiness.of(SEARCH)?.reasons).toEqual(["postgresql: did not answer within 3 s"]);
  });

  it("sees a dependency go and come, tells those who wait, and logs each turn once", async () => {
    let fault: string | undefined;
    const { readiness, lines } = await watch(() => fault, well);
    const idle = new AbortController();
    const gone = readiness.changed(idle.signal);
    fault = "away";
    await gone;
    expect(readiness.of(INGEST)?.reasons).toEqual(["kafka: away"]);
    const back = readiness.changed(idle.signal);
    fault = undefined;
    await back;
    expect(readiness.of(INGEST)?.ready).toBe(true);
    expect(lines.filter((fields) => fields?.["dependency"] === "kafka")).toEqual([
      { dependency: "kafka" },
      { dependency: "kafka", fault: "away" },
      { dependency: "kafka" },
    ]);
  });

  it("fails at once when the process begins to stop", async () => {
    const { readiness, stop } = await watch(well, well);
    const changed = readiness.changed(new AbortController().signal);
    stop.abort();
    await changed;
    expect(readiness.of(INGEST)).toMatchObject({ ready: false, reasons: ["the process is stopping"] });
    expect(readiness.report.status).toBe("stopping");
    expect(isServing(readiness.report)).toBe(false);
  });

  it("lets go of those whose own signal is raised", async () => {
    const { readiness } = await watch(well, well);
    await expect(readiness.changed(AbortSignal.abort())).resolves.toBeUndefined();
  });

  it.each(["", "weir.v1.Nothing", "toString", "__proto__"])("does not know the service %j", async (name) => {
    const { readiness } = await watch(well, well);
    expect(readiness.of(name)).toBeUndefined();
  });
});
