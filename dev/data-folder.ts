import { randomBytes } from "node:crypto";
import {
  accessSync,
  constants,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join, resolve } from "node:path";

const SECRET_BYTES = 32;

/** The folder of the clone. */
export const root: string = resolve(import.meta.dirname, "..");

/**
 * Where the launcher keeps everything: `.weir` in the clone, or `WEIR_DEV_DATA_DIR`. Made when missing, and seen to be
 * writable: else an error of one line.
 */
export function openDataFolder(): string {
  const wanted = process.env["WEIR_DEV_DATA_DIR"];
  const folder = resolve(root, wanted !== undefined && wanted !== "" ? wanted : ".weir");
  const logs = join(folder, "log");
  const probe = join(folder, `.probe-${process.pid}`);
  try {
    mkdirSync(logs, { recursive: true });
    writeFileSync(probe, "");
    rmSync(probe);
  } catch (error) {
    throw unwritable("data folder", folder, error);
  }
  // Another user (root, by sudo) may have started here before.
  for (const each of [logs, ...filesIn(folder), ...filesIn(logs)]) {
    try {
      accessSync(each, constants.R_OK | constants.W_OK);
    } catch (error) {
      throw unwritable(each === logs ? "folder" : "file", each, error);
    }
  }
  return folder;
}

function filesIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name }) => join(folder, name));
}

function unwritable(kind: string, path: string, error: unknown): Error {
  const owner = ownerOf(path);
  const whose = owner === undefined || owner === process.getuid?.() ? "" : `; it belongs to uid ${owner}`;
  const giveIt = whose === "" ? "" : "start as that user, give it to yourself (sudo chown -R), or ";
  return new Error(
    `The ${kind} ${path} cannot be written (${(error as NodeJS.ErrnoException).code}${whose}): ` +
      `${giveIt}set WEIR_DEV_DATA_DIR to another.`,
    { cause: error },
  );
}

/** Undefined where it, or what it would lie in, is not there or no folder. */
function ownerOf(path: string): number | undefined {
  try {
    return statSync(path).uid;
  } catch {
    return undefined;
  }
}

/** The secret in this file, 256 random bits in hexadecimal; made when missing, for its owner's eyes alone. */
export function readOrCreateSecret(file: string): string {
  try {
    writeFileSync(file, `${randomBytes(SECRET_BYTES).toString("hex")}\n`, { mode: 0o600, flag: "wx" });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
  const secret = readFileSync(file, "utf8").trim();
  if (!/^[0-9a-f]{64}$/.test(secret))
    throw new Error(
      `${file} does not hold a key of 64 hexadecimal digits: delete it, and a new one is made.`,
    );
  return secret;
}
