import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";

// Real processes, since signals and exit codes are what is promised. What the composition root does is said on standard
// error, a word a line; the log is on standard output.

const PRELUDE = `
  import { runProcess } from ${JSON.stringify(import.meta.resolve("./process.ts"))};
  const say = (word) => process.stderr.write(word + "\\n");
  const until = (signal) => new Promise((resolve) => signal.addEventListener("abort", resolve));
  const later = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const service = (name, run, ready = Promise.resolve()) => ({
    name,
    ready,
    async run(signal) {
      say(name + " runs");
      await (run ?? until)(signal);
      say(name + " stopped");
    },
  });
  const resource = (name) => ({ async [Symbol.asyncDispose]() { say(name + " closed"); } });
  // What holds a real process: a socket.
  const hold = setInterval(() => {}, 1000);
  const root = (start, needs = []) => runProcess({ name: "test", needs, start });
`;

interface Run {
  /** Resolves when the word has been said. */
  said(word: string): Promise<void>;
  kill(signal: NodeJS.Signals): void;
  /** What was said and logged by the end, and how it ended. */
  readonly end: Promise<{
    readonly status: number | null;
    readonly said: readonly string[];
    readonly log: readonly Readonly<Record<string, unknown>>[];
  }>;
}

function run(source: string, env: Readonly<Record<string, string>> = {}): Run {
  const child = spawn(process.execPath, ["--input-type=module", "--eval", PRELUDE + source], {
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const said: string[] = [];
  const listeners = new Set<() => void>();
  createInterface(child.stderr).on("line", (line) => {
    said.push(line);
    for (const listener of listeners) listener();
  });
  const lines: string[] = [];
  createInterface(child.stdout).on("line", (line) => lines.push(line));
  const end = new Promise<number | null>((resolve) => child.once("close", resolve)).then((status) => ({
    status,
    said,
    log: lines.map((line) => JSON.parse(line) as Record<string, unknown>),
  }));
  return {
    async said(word) {
      const heard = new Promise<void>((resolve) => {
        const listener = (): void => {
          if (said.includes(word)) resolve();
        };
        listeners.add(listener);
        listener();
      });
      const ended = end.then(({ log }) => {
        throw new Error(`Ended before it said "${word}": ${JSON.stringify({ said, log })}`);
      });
      await Promise.race([heard, ended]);
    },
    kill: (signal) => void child.kill(signal),
    end,
  };
}

const TWO_SERVICES = `
  await root(async ({ resources, stopping }) => {
    stopping.addEventListener("abort", () => say("not ready"));
    resources.use(resource("pool"));
    resources.use(resource("producer"));
    return [
      service("first", async (signal) => { await until(signal); say("first drains"); await later(30); }),
      service("second", async (signal) => { await until(signal); say("second drains"); await later(30); }),
    ];
  });
`;

describe("a stop that was asked for", () => {
  it.each(["SIGTERM", "SIGINT"] as const)("by %s goes in order and ends with 0", async (signal) => {
    const process = run(TWO_SERVICES);
    await process.said("second runs");
    process.kill(signal);
    const { status, said, log } = await process.end;
    expect(said).toEqual([
      "first runs",
      "second runs",
      "not ready",
      "second drains",
      "second stopped",
      "first drains",
      "first stopped",
      "producer closed",
      "pool closed",
    ]);
    expect(log.map((line) => line["message"])).toEqual(["Started", "Stopping", "Stopped"]);
    expect(status).toBe(0);
  });

  it("is one stop where a parent passes the terminal's signal on", async () => {
    const process = run(TWO_SERVICES);
    await process.said("second runs");
    process.kill("SIGINT");
    await process.said("not ready");
    process.kill("SIGINT");
    const { status, said } = await process.end;
    expect(said.at(-1)).toBe("pool closed");
    expect(status).toBe(0);
  });

  it("while starting gives the start up, and still closes what was opened", async () => {
    const process = run(`
      await root(async ({ resources, stopping }) => {
        resources.use(resource("pool"));
        say("starting");
        await until(stopping);
        throw new Error("given up");
      });
    `);
    await process.said("starting");
    process.kill("SIGTERM");
    const { status, said } = await process.end;
    expect(said).toEqual(["starting", "pool closed"]);
    expect(status).toBe(0);
  });
});

describe("a hard stop", () => {
  const HANGING = `await root(async () => [service("hanging", () => new Promise(() => {}))]);`;

  it("is what a second signal asks for", async () => {
    const process = run(HANGING);
    await process.said("hanging runs");
    process.kill("SIGTERM");
    // Two signals closer together than half a second are one.
    await sleep(600);
    process.kill("SIGTERM");
    const { status, log } = await process.end;
    expect(log.at(-1)).toMatchObject({ level: "error", signal: "SIGTERM" });
    expect(status).toBe(1);
  });

  it("comes when the stop takes longer than WEIR_STOP_TIMEOUT", async () => {
    const process = run(HANGING, { WEIR_STOP_TIMEOUT: "1s", WEIR_DRAIN_TIMEOUT: "0s" });
    await process.said("hanging runs");
    process.kill("SIGTERM");
    const { status, log } = await process.end;
    expect(log.at(-1)?.["message"]).toContain("WEIR_STOP_TIMEOUT");
    expect(status).toBe(1);
  });

  it.each([
    ["unhandled rejection", `void Promise.reject(new Error("boom"))`],
    ["uncaught exception", `setImmediate(() => { throw new Error("boom"); })`],
  ])("follows an %s, which is logged", async (title, fault) => {
    const process = run(`
      await root(async ({ resources }) => {
        resources.use(resource("pool"));
        return [service("one", async (signal) => { ${fault}; await until(signal); })];
      });
    `);
    const { status, said, log } = await process.end;
    expect(log.at(-1)).toMatchObject({ level: "error", error: { message: "boom" } });
    expect(String(log.at(-1)?.["message"]).toLowerCase()).toContain(title);
    expect(said).toEqual(["one runs"]);
    expect(status).toBe(1);
  });
});

describe("a fault", () => {
  it("of a service stops the others in order and ends with 1", async () => {
    const process = run(`
      await root(async ({ resources }) => {
        resources.use(resource("pool"));
        return [service("first"), service("second", async () => { throw new Error("lost"); }, new Promise(() => {}))];
      });
    `);
    const { status, said, log } = await process.end;
    expect(said).toEqual(["first runs", "second runs", "first stopped", "pool closed"]);
    expect(log).toContainEqual(
      expect.objectContaining({
        level: "error",
        service: "second",
        error: expect.objectContaining({ message: "lost" }) as unknown,
      }),
    );
    expect(status).toBe(1);
  });

  it("is a service that ends unasked", async () => {
    const process = run(`await root(async () => [service("brief", async () => {})]);`);
    const { status, log } = await process.end;
    expect(log).toContainEqual(expect.objectContaining({ level: "error", service: "brief" }));
    expect(status).toBe(1);
  });

  it("of a service that will never be ready keeps the next from starting", async () => {
    const process = run(`
      await root(async () => [
        service("first", until, Promise.reject(new Error("port in use"))),
        service("second"),
      ]);
    `);
    const { status, said, log } = await process.end;
    expect(said).toEqual(["first runs", "first stopped"]);
    expect(log).toContainEqual(
      expect.objectContaining({
        message: "The process could not start",
        error: expect.objectContaining({ message: "port in use" }) as unknown,
      }),
    );
    expect(status).toBe(1);
  });

  it("of a service that says so twice is told once, without a stack where an operator must cure it", async () => {
    const process = run(`
      const { OperatorError } = await import(${JSON.stringify(new URL("service.ts", import.meta.url).href)});
      const error = new OperatorError("port in use");
      const ready = Promise.reject(error);
      ready.catch(() => undefined);
      await root(async () => [service("first", () => Promise.reject(error), ready)]);
    `);
    const { log } = await process.end;
    const errors = log.flatMap((line) => (line["error"] === undefined ? [] : [line["error"]]));
    expect(errors).toEqual([{ name: "OperatorError", message: "port in use" }]);
  });

  it("of the start closes what was opened and ends with 1", async () => {
    const process = run(`
      await root(async ({ resources }) => {
        resources.use(resource("pool"));
        throw new Error("no broker");
      });
    `);
    const { status, said, log } = await process.end;
    expect(said).toEqual(["pool closed"]);
    expect(log[0]).toMatchObject({ level: "error", error: { message: "no broker" } });
    expect(status).toBe(1);
  });

  it("of closing one thing leaves none of the others open", async () => {
    const process = run(`
      await root(async ({ resources }) => {
        resources.use(resource("pool"));
        resources.defer(() => { throw new Error("stuck"); });
        return [service("one")];
      });
    `);
    await process.said("one runs");
    process.kill("SIGTERM");
    const { status, said } = await process.end;
    expect(said).toEqual(["one runs", "one stopped", "pool closed"]);
    expect(status).toBe(1);
  });
});

describe("the environment", () => {
  it("with bad values keeps the process from starting and names them all", async () => {
    const process = run(`await root(async () => { say("started"); return []; }, ["http", "jwt"]);`, {
      WEIR_PORT: "eighty",
      WEIR_LOG_LEVEL: "loud",
      WEIR_JWT_ALGORITHM: "HS256",
      WEIR_JWT_SECRET: "hunter2",
    });
    const { status, said, log } = await process.end;
    expect(said.slice(1).map((line) => line.trim().split(" ")[0])).toEqual([
      "WEIR_LOG_LEVEL",
      "WEIR_PORT",
      "WEIR_JWT_SECRET",
    ]);
    expect(said.join("\n")).not.toContain("hunter2");
    expect(log).toEqual([]);
    expect(status).toBe(1);
  });

  it("with a misspelt variable is warned about", async () => {
    const process = run(`await root(async () => [service("one")]);`, { WEIR_LOG_LEVLE: "debug" });
    await process.said("one runs");
    process.kill("SIGTERM");
    const { log } = await process.end;
    expect(log[0]).toMatchObject({
      level: "warn",
      message: "WEIR_LOG_LEVLE is not a setting and is ignored; did you mean WEIR_LOG_LEVEL?",
    });
  });
});
