import { describe, expect, it } from "vitest";
import { createLogger, type Logger, type LogOptions } from "./log.ts";

/** A logger and the text that it has written. */
async function logged(options: Partial<LogOptions>, write: (log: Logger) => void): Promise<string> {
  let text = "";
  const to = { write: (line: string) => void (text += line) };
  write(await createLogger({ name: "server", level: "info", format: "json", to, ...options }));
  return text;
}

async function loggedLines(write: (log: Logger) => void): Promise<readonly Record<string, unknown>[]> {
  const text = await logged({}, write);
  return text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe("createLogger", () => {
  it("writes one JSON object a line, with level, time, scope, message and fields", async () => {
    const [line] = await loggedLines((log) => log.warn("Slow reader", { port: 8080, offset: 12n }));
    expect(line).toEqual({
      level: "warn",
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) as unknown,
      scope: "server",
      port: 8080,
      offset: 12,
      message: "Slow reader",
    });
  });

  it("leaves out what is below its level", async () => {
    const lines = await loggedLines((log) => {
      log.debug("no");
      log.info("yes");
    });
    expect(lines.map((line) => line["message"])).toEqual(["yes"]);
  });

  it("gives a scope its parent's name and fields", async () => {
    const [line] = await loggedLines((log) =>
      log.scope("persist", { group: "g" }).scope("batch", { partition: 3 }).info("Stored", { records: 2 }),
    );
    expect(line).toMatchObject({ scope: "server.persist.batch", group: "g", partition: 3, records: 2 });
  });

  it("writes an error with its code and causes, and nothing else that hangs on it", async () => {
    const inner = Object.assign(new Error("refused"), {
      code: "ECONNREFUSED",
      config: { url: "http://inner" },
    });
    const error = new AggregateError([new Error("first"), "second"], "outer", { cause: inner });
    const [line] = await loggedLines((log) => log.error("Failed", { error }));
    const stack = expect.stringContaining("log.test.ts") as unknown;
    expect(line?.["error"]).toEqual({
      name: "AggregateError",
      message: "outer",
      stack,
      cause: { name: "Error", message: "refused", code: "ECONNREFUSED", stack },
      errors: [
        { name: "Error", message: "first", stack },
        { name: "string", message: "second" },
      ],
    });
  });

  it("ends an error whose causes go round in a circle", async () => {
    const error = new Error("round");
    error.cause = error;
    const [line] = await loggedLines((log) => log.error("Failed", { error }));
    expect(line?.["error"]).toMatchObject({ cause: { cause: { message: "round" } } });
  });

  it("has a form for people", async () => {
    const text = await logged({ format: "pretty" }, (log) =>
      log.scope("http").info("Listening", { port: 8080 }),
    );
    expect(text).toMatch(/^\[\d\d:\d\d:\d\d\.\d{3}\] INFO: server\.http: Listening \{"port":8080\}\n$/);
  });
});

describe("secrets", () => {
  // Put together here, so that no scanner takes it for a real one.
  const jwt = ["eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiJhbGljZSJ9", "c2lnbmF0dXJl"].join(".");

  it.each<[string, Readonly<Record<string, unknown>>]>([
    ["a field's name", { password: "hunter2" }],
    ["a nested field's name", { headers: { authorization: "Basic hunter2" } }],
    ["a field's name two levels down", { request: { headers: { cookie: "hunter2" } } }],
    ["a bearer token in a text", { header: "Authorization: Bearer hunter2" }],
    ["a bearer token in a list", { headers: [["authorization", "bearer hunter2=="]] }],
    ["a JWT in a text", { path: `/?t=${jwt}` }],
    ["a password in a URL", { url: "postgres://weir:hunter2@db:5432/weir" }],
    ["an error's message", { error: new Error("cannot reach kafka://weir:hunter2@broker") }],
    ["an error's cause", { error: new Error("outer", { cause: new Error(`bad token ${jwt}`) }) }],
  ])("are hidden in %s", async (_, fields) => {
    for (const format of ["json", "pretty"] as const) {
      const text = await logged({ format }, (log) => {
        log.info("Request", fields);
        log.scope("part", fields).info("Request");
      });
      expect(text).toContain("[hidden]");
      expect(text).not.toMatch(/hunter2|c2lnbmF0dXJl|eyJzdWIi/);
    }
  });

  it("leave the rest of a text as it is", async () => {
    const url = "https://weir.example:8080/v1/events?time=10:30@noon";
    const [line] = await loggedLines((log) =>
      log.info("Request", { url, database: "postgres://db:5432/weir" }),
    );
    expect(line).toMatchObject({ url, database: "postgres://db:5432/weir" });
  });
});
