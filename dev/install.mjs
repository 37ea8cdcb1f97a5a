// Runs on any Node.js from 20 on and imports nothing but Node.js itself: a fresh clone has neither our packages nor our
// Node.js yet.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, realpathSync, rmSync, statSync, writeFileSync } from "node:fs";
import { constants } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

/** The folder of the clone. */
export const root = dirname(dirname(fileURLToPath(import.meta.url)));

const OLDEST = 20;
/** The oldest Node.js that runs our TypeScript as it stands. */
const OLDEST_FOR_TYPESCRIPT = [22, 18];
const RELAYED = ["SIGINT", "SIGTERM", "SIGHUP"];
/** A terminal and npm both pass on one Ctrl-C. */
const SAME_SIGNAL_MS = 500;
const ABANDONED_LOCK_MS = 15 * 60_000;

/** Ends the process with one line. */
export function fail(line) {
  process.stderr.write(`${line}\n`);
  process.exit(1);
}

/**
 * Installs the locked dependencies where they are missing or stale, and gives the Node.js to go on with: the pinned one,
 * or the current one where its package is not to be had for this platform. Ends the process with one line where neither
 * will do.
 *
 * @returns {Promise<string>} the path of the executable
 */
export async function prepare() {
  if (Number(process.versions.node.split(".")[0]) < OLDEST) {
    fail(`Weir needs Node.js ${OLDEST} or newer to begin with; this is ${process.version}.`);
  }
  if (!isInstalled()) await withInstallLock(install);
  try {
    return realpathSync(join(root, "node_modules", ".bin", "node"));
  } catch {
    const [major, minor] = process.versions.node.split(".").map(Number);
    const [oldestMajor, oldestMinor] = OLDEST_FOR_TYPESCRIPT;
    if (major < oldestMajor || (major === oldestMajor && minor < oldestMinor)) {
      fail(
        `There is no pinned Node.js for ${process.platform} on ${process.arch}, and this one, ${process.version}, ` +
          `is too old: install Node.js ${oldestMajor}.${oldestMinor} or newer.`,
      );
    }
    process.stderr.write(`No pinned Node.js for this platform: going on with ${process.version}.\n`);
    return process.execPath;
  }
}

/** The last signal that was passed on. */
let relayed;

/**
 * Runs a command to its end, in a process group of its own, so that each signal reaches it once: from here.
 *
 * @param {string} command
 * @param {readonly string[]} args
 * @returns {Promise<number>} its exit code; 128 and the signal's number where a signal ended it
 */
export async function run(command, args) {
  const PATH = `${join(root, "node_modules", ".bin")}${delimiter}${process.env.PATH}`;
  const env = { ...process.env, PATH };
  const child = spawn(command, args, { cwd: root, stdio: "inherit", detached: true, env });
  let last = { signal: "", at: 0 };
  const relay = (signal) => {
    const now = Date.now();
    if (signal !== last.signal || now - last.at > SAME_SIGNAL_MS) child.kill(signal);
    last = { signal, at: now };
    relayed = signal;
  };
  for (const signal of RELAYED) process.on(signal, relay);
  try {
    return await new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("exit", (code, signal) => resolve(code ?? 128 + constants.signals[signal]));
    });
  } finally {
    for (const signal of RELAYED) process.off(signal, relay);
  }
}

/** What package-lock.json says, kept inside node_modules: gone with it, stale with it. */
const marker = join(root, "node_modules", ".weir-installed");

function lockHash() {
  return createHash("sha256")
    .update(readFileSync(join(root, "package-lock.json")))
    .digest("hex");
}

function isInstalled() {
  try {
    return readFileSync(marker, "utf8") === lockHash();
  } catch {
    return false;
  }
}

async function install() {
  if (isInstalled()) return;
  process.stderr.write("installing the locked dependencies (npm ci)\n");
  const started = Date.now();
  const hash = lockHash();
  const args = ["ci", "--include=dev", "--include=optional"];
  const npm = process.env.npm_execpath;
  const code = await (npm === undefined ? run("npm", args) : run(process.execPath, [npm, ...args]));
  if (relayed !== undefined) {
    process.stderr.write("interrupted\n");
    process.exit(128 + constants.signals[relayed]);
  }
  if (code !== 0) fail(`The dependencies could not be installed: npm ci ended with exit code ${code}.`);
  mkdirSync(dirname(marker), { recursive: true });
  writeFileSync(marker, hash);
  process.stderr.write(`dependencies installed in ${((Date.now() - started) / 1000).toFixed(1)} s\n`);
}

/** Two installations at once would pull node_modules from under each other. */
async function withInstallLock(work) {
  const lock = join(root, ".weir", "install.lock");
  for (;;) {
    try {
      mkdirSync(dirname(lock), { recursive: true });
      writeFileSync(lock, String(process.pid), { flag: "wx" });
      break;
    } catch (error) {
      if (error.code !== "EEXIST")
        fail(`Cannot install: ${dirname(lock)} cannot be written (${error.code}).`);
      if (isAbandoned(lock)) rmSync(lock, { force: true });
      else await sleep(200);
    }
  }
  const release = () => rmSync(lock, { force: true });
  process.once("exit", release);
  await work();
  process.off("exit", release);
  release();
}

function isAbandoned(lock) {
  try {
    if (Date.now() - statSync(lock).mtimeMs > ABANDONED_LOCK_MS) return true;
    process.kill(Number(readFileSync(lock, "utf8")), 0);
    return false;
  } catch (error) {
    return error.code === "ESRCH";
  }
}
