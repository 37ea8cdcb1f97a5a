import { execFile, execFileSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, inject, it, vi } from "vitest";

import { isAlive, type ProcessIdentity } from "../../dev/identity.ts";
import { stopLeftovers } from "../../dev/journal.ts";
import { freePort } from "../../dev/ports.ts";
import { openBroker } from "../kafka/broker.ts";
import { createEmptyDatabase } from "../support/database.ts";
import { environment, type Launcher, startedProcesses, startLauncher } from "./launcher.ts";

const root = join(import.meta.dirname, "../..");
const START_MS = 120_000;
/** In the order in which they stop. */
const PARTS = ["workers", "server", "Kafka", "PostgreSQL"];

let folder: string;
let port: number;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "weir-launcher-"));
  // Else PostgreSQL, where root runs the tests, goes elsewhere.
  chmodSync(folder, 0o711);
  port = await freePort();
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Runs a line in another terminal: in the folder of the clone, by this shell. */
async function paste(line: string, shell: string): Promise<string> {
  const { stdout } = await promisify(execFile)(shell, ["-c", line], { cwd: root, env: environment() });
  return stdout;
}

/** The panel's line that begins with this command. */
function lineOf(output: string, command: string): string {
  const line = output.split("\n").find((each) => each.startsWith(command));
  if (line === undefined) throw new Error(`no line begins with ${command}:\n${output}`);
  return line;
}

function partOf(processes: ReadonlyMap<string, ProcessIdentity>, name: string): ProcessIdentity {
  const identity = processes.get(name);
  if (identity === undefined) throw new Error(`the launcher started no ${name}`);
  return identity;
}

async function expectEventually(line: string, text: string): Promise<void> {
  await vi.waitFor(async () => expect(await paste(line, "sh")).toContain(text), {
    timeout: 20_000,
    interval: 100,
  });
}

function expectNothingLeft(dataFolder: string, processes: Iterable<ProcessIdentity>): void {
  for (const identity of processes) expect(isAlive(identity)).toBe(false);
  expect(existsSync(join(dataFolder, "lock"))).toBe(false);
  expect(existsSync(join(dataFolder, "run.json"))).toBe(false);
}

describe("a Weir on this machine", () => {
  let launcher: Launcher;
  let output: string;
  const data = (): string => join(folder, "data");
  // Where the broker is gone, a stop lasts as long as draining may.
  const start = (): Launcher => startLauncher(data(), { WEIR_PORT: String(port), WEIR_DRAIN_TIMEOUT: "2s" });
  let eventId: string;

  // What a test that failed has left.
  afterAll(async () => {
    launcher.kill("SIGKILL");
    await launcher.ended;
    await stopLeftovers(join(data(), "run.json"));
  });

  it("comes up from an empty folder, a line with its time for each step", { timeout: START_MS }, async () => {
    launcher = start();
    output = await launcher.running;
    for (const step of [
      "PostgreSQL 18 at",
      "Kafka 4.4 at",
      "database migrated",
      "server ready",
      "workers ready",
    ])
      expect(output).toMatch(new RegExp(`^ +\\d+\\.\\d s  ${step}`, "m"));
    expect(output).toContain(`Weir runs at http://127.0.0.1:${port}\n`);
    expect(output).toContain("one copy");
    for (const name of PARTS) expect(isAlive(partOf(startedProcesses(data()), name))).toBe(true);
  });

  it("prints lines that post an event and find it again, as pasted", { timeout: 60_000 }, async () => {
    const receipt = JSON.parse(await paste(lineOf(output, "curl "), "bash")) as { receipt: { name: string } };
    expect(receipt.receipt.name).toMatch(/^events\/%2Fhello:hello-\d+$/);
    eventId = receipt.receipt.name.split(":")[1] ?? "";
    await expectEventually(lineOf(output, "npx buf curl "), eventId);
  });

  it("takes the tokens of npm run token", { timeout: 60_000 }, async () => {
    const token = execFileSync(process.execPath, ["dev/token.ts", "--scope", "events.read", "--ttl", "1m"], {
      cwd: root,
      env: { ...environment(), WEIR_DEV_DATA_DIR: data() },
      encoding: "utf8",
    }).trim();
    const call = (method: string): Promise<Response> =>
      fetch(`http://127.0.0.1:${port}/weir.v1.${method}`, {
        method: "POST",
        headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` },
        body: "{}",
      });
    expect((await call("SearchService/SearchEvents")).status).toBe(200);
    expect((await call("IngestService/CreateEvent")).status).toBe(403);
  });

  it("refuses a second start, and says where the first is", { timeout: 30_000 }, async () => {
    const second = await startLauncher(data(), { WEIR_PORT: String(await freePort()) }).ended;
    expect(second.code).toBe(1);
    expect(second.stderr.trim()).toBe(
      `A Weir runs here already, at http://127.0.0.1:${port} (process ${launcher.pid}).`,
    );
  });

  it(
    "ends in order with a launcher that is killed, and comes up again with its data",
    { timeout: START_MS },
    async () => {
      const before = startedProcesses(data());
      launcher.kill("SIGKILL");
      await launcher.ended;
      await vi.waitFor(() => expect([...before.values()].filter(isAlive)).toEqual([]), { timeout: 40_000 });
      const log = (name: string): string => readFileSync(join(data(), "log", `${name}.log`), "utf8");
      for (const name of ["workers", "server"])
        expect(log(name).trimEnd().split("\n").at(-1)).toContain("Stopped");
      expect(log("postgres")).toContain("database system is shut down");

      launcher = start();
      output = await launcher.running;
      expect(output).not.toContain("of an earlier start");
      await expectEventually(lineOf(output, "npx buf curl "), eventId);
    },
  );

  it(
    "ends with a launcher that is killed even where its folder is deleted",
    { timeout: START_MS },
    async () => {
      const gone = join(folder, "gone");
      const other = startLauncher(gone, {
        WEIR_PORT: String(await freePort()),
        WEIR_KAFKA_BROKERS: inject("kafkaBrokers"),
      });
      await vi.waitFor(() => expect(startedProcesses(gone).has("PostgreSQL")).toBe(true), {
        timeout: 60_000,
      });
      const processes = startedProcesses(gone);
      other.kill("SIGKILL");
      rmSync(gone, { recursive: true, force: true, maxRetries: 20 });
      await vi.waitFor(() => expect([...processes.values()].filter(isAlive)).toEqual([]), {
        timeout: 40_000,
      });
    },
  );

  it(
    "ends with one line on which part it was, and its log, when one dies",
    { timeout: START_MS },
    async () => {
      const processes = startedProcesses(data());
      const victim = partOf(processes, "Kafka");
      process.kill(victim.pid, "SIGKILL");
      const { code, stderr } = await launcher.ended;
      expect(code).toBe(1);
      expect(stderr).toContain(`Kafka (process ${victim.pid}) was ended by SIGKILL.\n`);
      expect(stderr).toContain(`log: ${join(data(), "log", "kafka.log")}\n`);
      expectNothingLeft(data(), processes.values());
    },
  );

  it("stops in order on SIGTERM and leaves no process and no lock", { timeout: START_MS }, async () => {
    launcher = start();
    await launcher.running;
    const processes = startedProcesses(data());
    launcher.kill("SIGTERM");
    const { code, stdout, stderr } = await launcher.ended;
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const stops = [...stdout.matchAll(/ s {2}(\S+) stopped(?: \(wrote its class archive, once\))?$/gm)].map(
      ([, name]) => name,
    );
    expect(stops).toEqual(PARTS);
    expectNothingLeft(data(), processes.values());
  });

  it(
    "comes up where the log was lost, says which partition that stops, and what puts it right",
    { timeout: START_MS },
    async () => {
      rmSync(join(data(), "kafka"), { recursive: true });
      launcher = start();
      output = await launcher.running;
      expect(output).toMatch(/s {2}workers started, with a fault: see below$/m);
      expect(output).toMatch(
        /^ {2}persist: FAILED: the checkpoint of weir\.events\.v1\/\d+ in group weir\.persist\.v1 is 1, and the topic was made anew since\. /m,
      );
      expect(output).toContain(`stop this and delete ${data()}.`);
      const readyz = /http:\S+\/readyz/.exec(output)?.[0] ?? "";
      expect((await fetch(readyz)).status).toBe(503);

      const { WEIR_DATABASE_URL: url } = readEnvFile(join(data(), "env"));
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      await client.query(/update consumer\.checkpoint [^;]*;/.exec(output)?.[0] ?? "");
      await client.end();
      await expectEventually(`curl -s ${readyz}`, '"status":"ready"');
      await paste(lineOf(output, "curl "), "bash");
      const total = async (): Promise<number> =>
        (await paste(lineOf(output, "npx buf curl "), "sh")).match(/"hello-\d+"/g)?.length ?? 0;
      await expect.poll(total, { timeout: 20_000 }).toBe(2);
    },
  );

  it("stops in order where nobody reads what it prints", { timeout: START_MS }, async () => {
    const processes = startedProcesses(data());
    launcher.closeOutput();
    launcher.kill("SIGTERM");
    const { code, stderr } = await launcher.ended;
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expectNothingLeft(data(), processes.values());
    for (const name of ["workers", "server"])
      expect(readFileSync(join(data(), "log", `${name}.log`), "utf8").trimEnd()).toMatch(/Stopped.*$/);
  });
});

function readEnvFile(file: string): Readonly<Record<string, string>> {
  const lines = execFileSync("sh", ["-c", `set -a; . ${file}; env`], { env: {}, encoding: "utf8" }).split(
    "\n",
  );
  return Object.fromEntries(lines.map((line) => [line.split("=")[0], line.slice(line.indexOf("=") + 1)]));
}

describe("a start that cannot be", () => {
  const refused = async (settings: Readonly<Record<string, string>>): Promise<string> => {
    const dataFolder = mkdtempSync(join(folder, "refused-"));
    const { code, stderr } = await startLauncher(dataFolder, settings).ended;
    expect(code).toBe(1);
    expect(existsSync(join(dataFolder, "lock"))).toBe(false);
    // Nothing heavy was begun.
    expect(existsSync(join(dataFolder, "kafka"))).toBe(false);
    expect(existsSync(join(dataFolder, "postgres"))).toBe(false);
    return stderr.trim();
  };

  it("names WEIR_PORT where the port is busy", async () => {
    const other = createServer().listen(0, "127.0.0.1");
    await once(other, "listening");
    const address = other.address() as { port: number };
    expect(await refused({ WEIR_PORT: String(address.port) })).toBe(
      `Port ${address.port} of 127.0.0.1 is not to be had (EADDRINUSE): set WEIR_PORT to another.`,
    );
    other.close();
  });

  it("names both settings where they name one port, and the setting of another's port", async () => {
    const other = createServer().listen(0, "127.0.0.1");
    await once(other, "listening");
    const taken = String((other.address() as { port: number }).port);
    const free = String(await freePort());
    expect(await refused({ WEIR_PORT: free, WEIR_WORKERS_PORT: free })).toBe(
      `WEIR_PORT and WEIR_WORKERS_PORT are both ${free}: set WEIR_WORKERS_PORT to another.`,
    );
    expect(await refused({ WEIR_PORT: free, WEIR_WORKERS_PORT: taken })).toBe(
      `Port ${taken} of 127.0.0.1 is not to be had (EADDRINUSE): set WEIR_WORKERS_PORT to another.`,
    );
    other.close();
  });

  it("names WEIR_HOST where that is no address of this machine", async () => {
    expect(await refused({ WEIR_PORT: "0", WEIR_HOST: "203.0.113.7" })).toBe(
      "Nothing can listen on 203.0.113.7 (EADDRNOTAVAIL): set WEIR_HOST to an address of this machine.",
    );
  });

  it("names the file of a secret that was emptied", async () => {
    const dataFolder = mkdtempSync(join(folder, "secret-"));
    writeFileSync(join(dataFolder, "jwt-secret"), "");
    const { code, stderr } = await startLauncher(dataFolder, {}).ended;
    expect(code).toBe(1);
    expect(stderr).toContain(`${join(dataFolder, "jwt-secret")} does not hold a key`);
  });

  it(
    "names the settings of services that are not there, and of what it does not know",
    { timeout: START_MS },
    async () => {
      const port = await freePort();
      const { code, stdout, stderr } = await startLauncher(mkdtempSync(join(folder, "nowhere-")), {
        WEIR_PORT: "0",
        WEIR_DATABASE_URL: `postgres://weir@127.0.0.1:${port}/weir`,
        WEIR_KAFKA_BROKER: "localhost:9092",
        WEIR_KAFKA_BROKERS: inject("kafkaBrokers"),
      }).ended;
      expect(stdout).toContain(
        "WEIR_KAFKA_BROKER is not a setting and is ignored; did you mean WEIR_KAFKA_BROKERS?",
      );
      expect(stdout).toContain(`waiting for PostgreSQL at 127.0.0.1:${port} (WEIR_DATABASE_URL)\n`);
      expect(stderr.trim()).toBe(
        `PostgreSQL at 127.0.0.1:${port} (WEIR_DATABASE_URL) was not reached within 20 s: ECONNREFUSED.`,
      );
      expect(code).toBe(1);
    },
  );

  it("says what is missing where there is neither Java nor Docker", async () => {
    expect(await refused({ WEIR_PORT: "0", PATH: "" })).toMatch(
      /^Kafka needs Java 17 with Maven, or Docker;[^\n]*$/,
    );
  });

  it("names the data folder where that cannot be written", async () => {
    const { code, stderr } = await startLauncher("/dev/null/weir", {}).ended;
    expect(code).toBe(1);
    expect(stderr.trim()).toBe(
      "The data folder /dev/null/weir cannot be written (ENOTDIR): set WEIR_DEV_DATA_DIR to another.",
    );
  });

  it("names every bad setting at once", async () => {
    const stderr = await refused({ WEIR_PORT: "many", WEIR_KAFKA_BROKERS: "no port" });
    expect(stderr).toContain("WEIR_PORT ");
    expect(stderr).toContain("WEIR_KAFKA_BROKERS ");
  });
});

it("takes the operator's own Kafka and PostgreSQL where they are named", { timeout: START_MS }, async () => {
  await using database = await createEmptyDatabase();
  await using broker = await openBroker();
  const [events, deadLetters] = [broker.name("events"), broker.name("dlq")];
  await using _ = broker.owning(events, deadLetters);
  const dataFolder = join(folder, "own");
  const launcher = startLauncher(dataFolder, {
    WEIR_PORT: "0",
    WEIR_KAFKA_BROKERS: inject("kafkaBrokers"),
    WEIR_DATABASE_URL: database.url,
    WEIR_TOPIC_EVENTS: events,
    WEIR_TOPIC_DEAD_LETTERS: deadLetters,
    WEIR_PERSIST_GROUP: broker.name("group"),
  });
  const output = await launcher.running;
  expect(output).not.toContain("one copy");
  // What npm start leaves for other processes is enough for one.
  const line = `set -a; . ${join(dataFolder, "env")}; exec "${process.execPath}" workers/setup.ts`;
  const topics = { WEIR_TOPIC_EVENTS: events, WEIR_TOPIC_DEAD_LETTERS: deadLetters };
  await promisify(execFile)("sh", ["-c", line], { cwd: root, env: { ...environment(), ...topics } });
  const metrics = /http:\/\/\S+\/metrics/.exec(output)?.[0] ?? "";
  expect((await fetch(metrics)).status).toBe(200);
  expect([...startedProcesses(dataFolder).keys()].toSorted()).toEqual(["server", "setup", "workers"]);
  // Ctrl-C through npm arrives twice.
  launcher.kill("SIGINT");
  launcher.kill("SIGINT");
  const { code, stdout } = await launcher.ended;
  expect(code).toBe(0);
  expect(stdout).not.toContain("at once");
  expect(existsSync(join(dataFolder, "env"))).toBe(false);
});
