import { spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { type Message, type Peer, type Read, type Sent } from "./peer.ts";

/** Installers and compilers may take this long each, in milliseconds. */
const INSTALL_MS = 120_000;
/** Peers may take this long to answer. */
const ANSWER_MS = 25_000;

/** This machine cannot run a peer. The message says why. */
export class CannotRun extends Error {
  override readonly name = "CannotRun";
}

/** A peer, or why this machine cannot run it. */
export type Offer = { readonly peer: Peer } | { readonly missing: string };

/**
 * Makes a peer ready. Where the machine cannot run it, its tests are to be skipped, and the run says so on stderr; with
 * WEIR_TEST_INTEROP=required that is an error instead.
 */
export async function offer(name: string, prepare: () => Promise<Peer>): Promise<Offer> {
  try {
    return { peer: await prepare() };
  } catch (error) {
    if (!(error instanceof CannotRun) || process.env["WEIR_TEST_INTEROP"] === "required") throw error;
    const missing = error.message;
    const note = "WEIR_TEST_INTEROP=required makes that a failure.";
    process.stderr.write(`\nSKIPPED: the tests with ${name}. ${missing}\n${note}\n\n`);
    return { missing };
  }
}

/** Python's `cloudevents`, installed for this run from the package index that pip is set up for. */
export async function preparePython(): Promise<Peer> {
  const folder = join(import.meta.dirname, "python");
  const packages = mkdtempSync(join(tmpdir(), "weir-python-"));
  const isNewEnough = "import sys; sys.exit(sys.version_info < (3, 10))";
  await need("python3", ["-c", isNewEnough], "python3, of version 3.10 or newer");
  const install = ["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"];
  const bounds = ["--retries", "1", "--timeout", "20"];
  const what = ["--target", packages, "--requirement", join(folder, "requirements.txt")];
  await need("python3", [...install, ...bounds, ...what], "what test/interop/python/requirements.txt lists");
  return createPeer("python3", [join(folder, "peer.py")], { PYTHONPATH: packages, PYTHONUTF8: "1" });
}

/** Go's `sdk-go`, built for this run with the modules of the machine's cache or of its module proxy. */
export async function prepareGo(): Promise<Peer> {
  const cwd = join(import.meta.dirname, "go");
  const program = join(mkdtempSync(join(tmpdir(), "weir-go-")), "peer");
  // Go would fetch another version of itself where go.mod asks for a newer one.
  const env = { GOTOOLCHAIN: "local" };
  await need("go", ["mod", "download"], "the modules of test/interop/go/go.mod", { cwd, env });
  // It would ask git about the checkout, which may belong to another user.
  const built = await run("go", ["build", "-buildvcs=false", "-o", program, "."], { cwd, env });
  if (built.code === undefined) throw new CannotRun(`go build ${built.output}`);
  if (built.code !== 0) throw new Error(`test/interop/go does not compile:\n${built.output}`);
  return createPeer(program, []);
}

interface Options {
  readonly timeout?: number;
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
}

interface Ending {
  /** undefined where the program was not there, or was ended for its slowness. */
  readonly code: number | undefined;
  readonly stdout: string;
  /** All that it wrote; without a code what happened. */
  readonly output: string;
}

function run(
  command: string,
  args: readonly string[],
  { cwd, env, input = "", timeout = INSTALL_MS }: Options,
): Promise<Ending> {
  const { promise, resolve } = Promise.withResolvers<Ending>();
  const child = spawn(command, args, {
    cwd,
    env: { ...process.env, ...env },
    timeout,
    killSignal: "SIGKILL",
  });
  const [stdout, all]: [Buffer[], Buffer[]] = [[], []];
  child.stdout.on("data", (chunk: Buffer) => {
    stdout.push(chunk);
    all.push(chunk);
  });
  child.stderr.on("data", (chunk: Buffer) => all.push(chunk));
  child.once("error", ({ message }) => resolve({ code: undefined, stdout: "", output: message }));
  child.once("close", (code, signal) => {
    const output = Buffer.concat(all).toString().trim();
    const ended = code === null ? `was ended by ${signal} within ${timeout} ms. ${output}` : output;
    resolve({ code: code ?? undefined, stdout: Buffer.concat(stdout).toString(), output: ended });
  });
  // A program that ends early does not read it all, and its code says the rest.
  child.stdin.on("error", () => {});
  child.stdin.end(input);
  return promise;
}

async function need(
  command: string,
  args: readonly string[],
  what: string,
  options: Options = {},
): Promise<void> {
  const { code, output } = await run(command, args, options);
  if (code !== 0)
    throw new CannotRun(`They need ${what}, which is not to be had here: ${output.slice(-500)}`);
}

/** A peer that is a program: a request in JSON on its standard input, the answer on its standard output. */
function createPeer(
  command: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Peer {
  const ask = async (request: object): Promise<Answer> => {
    const whole = { baseUrl: "", token: "", send: [], read: [], ...request };
    const { code, stdout, output } = await run(command, args, {
      env,
      input: JSON.stringify(whole),
      timeout: ANSWER_MS,
    });
    if (code !== 0) throw new Error(`${command} ${args.join(" ")} failed:\n${output}`);
    return JSON.parse(stdout) as Answer;
  };
  return {
    send: async (send, destination) => {
      const { sent } = await ask({ ...destination, send });
      return sent.map((one) => ("record" in one ? { record: fromRecord(one.record) } : one));
    },
    read: async (messages) => {
      const { read } = await ask({ read: messages.map(toMessage) });
      return read;
    },
  };
}

type Base64 = string | null;

interface Answer {
  readonly sent: readonly (Exclude<Sent, { record: unknown }> | { readonly record: WrittenRecord })[];
  readonly read: readonly Read[];
}

interface WrittenRecord {
  readonly headers: readonly (readonly [name: string, value: Base64])[];
  readonly key: Base64;
  readonly value: Base64;
}

function fromRecord({ headers, key, value }: WrittenRecord): Extract<Sent, { record: unknown }>["record"] {
  return {
    headers: headers.map(([name, bytes]) => [name, fromBase64(bytes)]),
    key: fromBase64(key),
    value: fromBase64(value),
  };
}

function toMessage({ binding, headers, key, body }: Message): object {
  return {
    binding,
    headers: headers.map(([name, value]) => [name, toBase64(value)]),
    key: toBase64(key),
    body: toBase64(body),
  };
}

function toBase64(bytes: Uint8Array | null): Base64 {
  return bytes && Buffer.from(bytes).toString("base64");
}

function fromBase64(text: Base64): Uint8Array | null {
  return text === null ? null : Buffer.from(text, "base64");
}
