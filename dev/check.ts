import { spawn } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

import { settingsPage } from "#runtime/settings-page.ts";
import { telemetryPage } from "#runtime/telemetry-page.ts";

// `npm run check`: everything that can be said of the repository without running it. A line for each part with its
// time, then the output of those that failed. Names of parts as arguments run these alone (`npm run check -- types`).

const root = fileURLToPath(new URL("..", import.meta.url));

/** A part resolves with a note or nothing where all is well, and rejects with what the reader must see. */
type Part = () => Promise<string | undefined>;

const sdkBuild = once(async () => await tool("tsc", "-p", "sdk/tsconfig.build.json"));

// The long ones first: the parts run side by side, as many as there are processors.
const PARTS: Readonly<Record<string, Part>> = {
  "sdk-build": sdkBuild,
  types: async () => await tool("tsc", "-b"),
  generated: checkGenerated,
  unused: async () => await tool("knip"),
  lint: async () => await tool("oxlint"),
  "sdk-types": async () => {
    await sdkBuild();
    return await tool("attw", "--pack", "sdk", "--profile", "esm-only", "--quiet");
  },
  "sdk-package": async () => {
    await sdkBuild();
    return await tool("publint", "--strict", "sdk");
  },
  schema: checkSchema,
  format: async () => await tool("oxfmt", "--check"),
  contract: async () => await tool("buf", "lint"),
  "contract-format": async () => {
    await tool("buf", "format", "proto", "--diff", "--exit-code");
    return await tool("buf", "format", "proto/vendor", "--diff", "--exit-code");
  },
  "contract-breaking": checkBreaking,
  settings: () => checkPage("docs/settings.md", settingsPage(), "runtime/settings"),
  telemetry: () =>
    checkPage("docs/telemetry.md", telemetryPage(), "runtime/instruments.ts and runtime/spans.ts"),
};

/** Generates the code again, elsewhere, so that uncommitted changes are judged and nothing is overwritten. */
async function checkGenerated(): Promise<undefined> {
  using folder = temporaryFolder();
  await tool("buf", "generate", "--output", folder.path);
  const [committed, fresh] = [filesUnder(join(root, "sdk/gen")), filesUnder(join(folder.path, "sdk/gen"))];
  const different = [...new Set([...committed.keys(), ...fresh.keys()])]
    .filter((name) => committed.get(name) !== fresh.get(name))
    .map((name) => `  sdk/gen/${name}`);
  if (different.length === 0) return undefined;
  throw new Error(`Generated code differs from proto/; run \`npm run generate\`:\n${different.join("\n")}`);
}

/** Compares the contract with the main branch's, where there is one that has a contract. */
async function checkBreaking(): Promise<string | undefined> {
  const base = await contractBase();
  if (base === undefined) return "no main branch with a contract to compare with";
  using folder = temporaryFolder();
  // A checkout of the base, in the shape of ours: buf compares module by module.
  const archive = join(folder.path, "proto.tar");
  await git("archive", "--output", archive, base, "proto");
  await tool("tar", "-xf", archive, "-C", folder.path);
  cpSync(join(root, "buf.yaml"), join(folder.path, "buf.yaml"));
  symlinkSync(join(root, "node_modules"), join(folder.path, "node_modules"));
  await tool("buf", "breaking", ".", "--against", folder.path);
  return `compared with ${base}`;
}

async function contractBase(): Promise<string | undefined> {
  // A CI's checkout often has the remote's branch alone, or neither.
  for (const branch of ["main", "origin/main"]) {
    try {
      await git("cat-file", "-e", `${branch}:proto`);
      return branch;
    } catch {
      continue;
    }
  }
  return undefined;
}

/** Compares a page with what the code makes of it. */
async function checkPage(path: string, page: string, source: string): Promise<undefined> {
  if (readFileSync(join(root, path), "utf8") === page) return undefined;
  throw new Error(`${path} differs from ${source}; run \`npm run config -- --markdown\`.`);
}

/** Compares postgres/schema.snapshot.txt with what the migrations make of an empty database. */
async function checkSchema(): Promise<undefined> {
  // The run of tests would bring a broker up, too, and this needs none.
  const env = { WEIR_TEST_KAFKA_BROKERS: "none" };
  await toolWith(env, "vitest", "run", "--project", "integration", "test/postgres/schema.test.ts");
}

function once<T>(work: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined;
  return () => (result ??= work());
}

function temporaryFolder(): Disposable & { readonly path: string } {
  const path = mkdtempSync(join(tmpdir(), "weir-check-"));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

/** The text of every file, by its path within the folder. */
function filesUnder(folder: string): ReadonlyMap<string, string> {
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" });
  const files = names.filter((name) => name.endsWith(".ts")).sort();
  return new Map(files.map((name) => [name, readFileSync(join(folder, name), "utf8")]));
}

/** A CI's checkout may belong to another user, which git refuses to read unless it is told. */
async function git(...args: readonly string[]): Promise<void> {
  await tool("git", "-c", "safe.directory=*", ...args);
}

/** Runs a tool of node_modules or the system in the repository; rejects with all its output where it fails. */
function tool(command: string, ...args: readonly string[]): Promise<undefined> {
  return toolWith({}, command, ...args);
}

/** As `tool`, with more in its environment. */
function toolWith(env: NodeJS.ProcessEnv, command: string, ...args: readonly string[]): Promise<undefined> {
  const PATH = [join(root, "node_modules/.bin"), process.env["PATH"]].join(delimiter);
  const { promise, resolve, reject } = Promise.withResolvers<undefined>();
  const child = spawn(command, args, { cwd: root, env: { ...process.env, ...env, PATH }, stdio: "pipe" });
  const output: Buffer[] = [];
  child.stdout.on("data", (chunk: Buffer) => output.push(chunk));
  child.stderr.on("data", (chunk: Buffer) => output.push(chunk));
  child.once("error", (error) => reject(new Error(`${command} cannot be run: ${error.message}`)));
  child.once("close", (code) => {
    if (code === 0) resolve(undefined);
    else
      reject(
        new Error(`$ ${[command, ...args].join(" ")}\n${Buffer.concat(output).toString("utf8").trim()}`),
      );
  });
  return promise;
}

async function runParts(names: readonly string[]): Promise<readonly string[]> {
  const waiting = [...names];
  const failures: string[] = [];
  const say = (started: number, verdict: string, name: string, note: string | undefined): void => {
    const seconds = ((performance.now() - started) / 1000).toFixed(1).padStart(6);
    process.stdout.write(
      `${seconds} s  ${verdict.padEnd(6)}  ${name}${note === undefined ? "" : ` (${note})`}\n`,
    );
  };
  const runner = async (): Promise<void> => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
      const started = performance.now();
      try {
        say(started, "ok", name, await PARTS[name]?.());
      } catch (error) {
        say(started, "FAILED", name, undefined);
        failures.push(`\n── ${name}\n${error instanceof Error ? error.message : String(error)}\n`);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.max(2, availableParallelism()) }, runner));
  return failures;
}

const asked = process.argv.slice(2);
const unknown = asked.filter((name) => !Object.hasOwn(PARTS, name));
if (unknown.length > 0) {
  process.stderr.write(`No such part: ${unknown.join(", ")}. There are ${Object.keys(PARTS).join(", ")}.\n`);
  process.exit(2);
}
const failures = await runParts(asked.length > 0 ? asked : Object.keys(PARTS));
process.stdout.write(failures.join(""));
process.exitCode = failures.length === 0 ? 0 : 1;
