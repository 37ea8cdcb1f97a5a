import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { canEnter } from "./postgres-owner.ts";
import { choosePostgresPlace, type PostgresPlace } from "./postgres-place.ts";

const isRoot = process.getuid?.() === 0;
let dataFolder: string;
const made: string[] = [];

beforeEach(() => {
  dataFolder = mkdtempSync(join(tmpdir(), "weir-place-"));
});

afterEach(() => {
  for (const folder of [dataFolder, ...made.splice(0)]) rmSync(folder, { recursive: true, force: true });
});

async function choose(folder = dataFolder): Promise<PostgresPlace> {
  const place = await choosePostgresPlace(folder);
  made.push(dirname(place.dataDir));
  return place;
}

/** Whoever PostgreSQL runs as can run it there, and reach the parent of its data. */
function expectUsable({ user, binaries, dataDir }: PostgresPlace): void {
  const asUser = { ...user, cwd: "/" };
  expect(spawnSync(join(binaries, "bin", "postgres"), ["--version"], asUser).status).toBe(0);
  expect(user === undefined || canEnter(user, dirname(dataDir))).toBe(true);
}

describe("PostgreSQL's place", () => {
  it("is in a data folder that anybody may enter", async () => {
    chmodSync(dataFolder, 0o755);
    const place = await choose();
    expect(place.dataDir).toBe(join(dataFolder, "postgres", "data"));
    expect(place.isElsewhere).toBe(false);
    expectUsable(place);
  });

  it("is elsewhere only where we are root and the data folder is root's alone", async () => {
    const place = await choose();
    expect(place.isElsewhere).toBe(isRoot);
    expect(place.dataDir.startsWith(dataFolder)).toBe(!isRoot);
    expectUsable(place);
  });

  it("never is one that root owns", async () => {
    expect((await choose()).user?.uid).not.toBe(0);
  });

  it("is the same the next time, with the same password, wherever the data folder was moved", async () => {
    const place = await choose();
    mkdirSync(place.dataDir);
    expect(await choose()).toMatchObject({ dataDir: place.dataDir, password: place.password });
    const copy = mkdtempSync(join(tmpdir(), "weir-place-"));
    made.push(copy);
    writeFileSync(join(copy, "postgres.json"), readFileSync(join(dataFolder, "postgres.json")));
    expect(await choose(copy)).toMatchObject({ dataDir: place.dataDir, password: place.password });
  });

  it("is begun anew where the data folder was deleted, for nobody knows the password any more", async () => {
    const place = await choose();
    mkdirSync(place.dataDir);
    rmSync(join(dataFolder, "postgres.json"));
    const again = await choose();
    expect(again.dataDir).toBe(place.dataDir);
    expect(again.password).not.toBe(place.password);
    expect(statSync(again.dataDir, { throwIfNoEntry: false })).toBeUndefined();
  });

  it("keeps its password for its owner's eyes alone", async () => {
    const { password } = await choose();
    expect(password).toMatch(/^[0-9a-f]{48}$/);
    expect(statSync(join(dataFolder, "postgres.json")).mode & 0o777).toBe(0o600);
  });
});
