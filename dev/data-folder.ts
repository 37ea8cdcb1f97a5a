import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
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
  const probe = join(folder, `.probe-${process.pid}`);
  try {
    mkdirSync(join(folder, "log"), { recursive: true });
    writeFileSync(probe, "");
    rmSync(probe);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new Error(
      `The data folder ${folder} cannot be written (${code}): set WEIR_DEV_DATA_DIR to another.`,
      {
        cause: error,
      },
    );
  }
  return folder;
}

/** The secret in this file, 256 random bits in hexadecimal; made when missing, for its owner's eyes alone. */
export function readOrCreateSecret(file: string): string {
  try {
    writeFileSync(file, `${randomBytes(SECRET_BYTES).toString("hex")}\n`, { mode: 0o600, flag: "wx" });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
  return readFileSync(file, "utf8").trim();
}
