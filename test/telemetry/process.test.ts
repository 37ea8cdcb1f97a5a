import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";

import { startOtlpSink } from "./otlp-sink.ts";

const ROOT = join(import.meta.dirname, "../..");

// Processes of their own: what is loaded is loaded once, and a stop ends a process.
const run = async (program: string, env: NodeJS.ProcessEnv = {}): Promise<string> => {
  const args = ["--input-type=module", "--eval", program];
  return (await promisify(execFile)(process.execPath, args, { cwd: ROOT, env: { ...process.env, ...env } }))
    .stdout;
};

// It takes in what the composition roots do.
const LOADING = `
  import { registerHooks } from "node:module";
  const loaded = [];
  registerHooks({ load: (url, context, next) => (loaded.push(url), next(url, context)) });
  const { createTracer } = await import("#runtime/tracing.ts");
  await Promise.all(
    ["#runtime/process.ts", "#kafka/traced.ts", "#postgres/tx.ts", "./server/http/rpc.ts", "./server/http/http-routes.ts"].map(
      (name) => import(name.startsWith("#") ? name : new URL(name, "file://" + process.cwd() + "/").href),
    ),
  );
  const options = { sampling: 1, serviceName: "test", telemetry: { count() {} }, log: console };
  const off = await createTracer({ ...options, otlpEndpoint: undefined });
  const before = loaded.filter((url) => /sdk-trace|otlp/.test(url));
  const on = await createTracer({ ...options, otlpEndpoint: "http://127.0.0.1:9" });
  const after = loaded.filter((url) => /sdk-trace|otlp/.test(url));
  console.log(JSON.stringify({ off: off === undefined, before, on: on !== undefined, after: after.length > 0 }));
`;

it("has no tracer and loads no SDK where no endpoint is set", async () => {
  expect(JSON.parse(await run(LOADING))).toEqual({ off: true, before: [], on: true, after: true });
});

const STOPPING = `
  // What holds a real process: a socket.
  setInterval(() => {}, 1000);
  const { runProcess } = await import("#runtime/process.ts");
  await runProcess({
    name: "test",
    needs: [],
    start({ tracer }) {
      tracer.start("http", { name: "the last", attributes: {} }).end();
      process.kill(process.pid, "SIGTERM");
      return [];
    },
  });
`;

it("sends the last spans when the process stops", async () => {
  await using sink = await startOtlpSink();
  await run(STOPPING, { WEIR_OTLP_ENDPOINT: sink.url });
  // It has ended: what comes from it has come.
  expect(sink.spans).toMatchObject([{ service: "weir-test", name: "the last" }]);
});
