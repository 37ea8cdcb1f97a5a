import { spawnSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { canEnter } from "./postgres-owner.ts";
import { choosePostgresPlace, type PostgresPlace } from "./postgres-place.ts";

const isRoot = process.getuid?.() === 0;
let dataFolder: string;
let elsewhere: string;
const made: string[] = [];

beforeEach(() => {
  dataFolder = mkdtempSync(join(tmpdir(), "weir-place-"));
  elsewhere = join(newFolder(), "elsewhere");
});

afterEach(() => {
  for (const folder of [dataFolder, ...made.splice(0)]) rmSync(folder, { recursive: true, force: true });
});

function choose(folder = dataFolder): Promise<PostgresPlace> {
  return choosePostgresPlace(folder, elsewhere);
}

/** What there is once PostgreSQL has run there. */
function makeCluster({ dataDir }: PostgresPlace): void {
  mkdirSync(dataDir);
  writeFileSync(join(dataDir, "PG_VERSION"), "18\n");
  mkdirSync(join(dataFolder, "log"), { recursive: true });
  writeFileSync(join(dataFolder, "log", "postgres.log"), "");
}

/** A folder that anybody may enter. */
function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "weir-place-"));
  chmodSync(folder, 0o755);
  made.push(folder);
  return folder;
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

  it("is the same the next time, with the same password", async () => {
    const place = await choose();
    makeCluster(place);
    expect(await choose()).toMatchObject({
      dataDir: place.dataDir,
      password: place.password,
      isPasswordNew: false,
    });
  });

  it("goes with a data folder that is moved, and is another's in a copy", async () => {
    chmodSync(dataFolder, 0o755);
    const place = await choose();
    makeCluster(place);
    const copy = join(newFolder(), "copy");
    cpSync(dataFolder, copy, { recursive: true });
    expect(await choose(copy)).toMatchObject({
      dataDir: join(copy, "postgres", "data"),
      password: place.password,
    });
    const moved = join(newFolder(), "moved");
    renameSync(dataFolder, moved);
    expect(await choose(moved)).toMatchObject({
      dataDir: join(moved, "postgres", "data"),
      password: place.password,
    });
    expect(existsSync(join(moved, "postgres", "data", "PG_VERSION"))).toBe(true);
  });

  it("is found by what an older note says of a folder that has moved", async () => {
    chmodSync(dataFolder, 0o755);
    makeCluster(await choose());
    writeFileSync(
      join(dataFolder, "postgres.json"),
      JSON.stringify({ folder: "/gone/.weir/postgres", password: "old" }),
    );
    expect(await choose()).toMatchObject({ dataDir: join(dataFolder, "postgres", "data"), password: "old" });
  });

  it.each([
    ["missing", undefined],
    ["empty", ""],
    ["cut short", '{"folder": "po'],
    ["another's", '{"folder": 1}'],
  ])("keeps its data where the note is %s, which then get a new password", async (_, note) => {
    for (const mode of [0o755, 0o700]) {
      chmodSync(dataFolder, mode);
      const place = await choose();
      makeCluster(place);
      const file = join(dataFolder, "postgres.json");
      if (note === undefined) rmSync(file);
      else writeFileSync(file, note);
      const again = await choose();
      expect(again).toMatchObject({ dataDir: place.dataDir, isPasswordNew: true });
      expect(again.password).not.toBe(place.password);
      expect(existsSync(join(place.dataDir, "PG_VERSION"))).toBe(true);
      expect(await choose()).toMatchObject({ password: again.password, isPasswordNew: false });
      rmSync(join(dataFolder, "postgres"), { recursive: true, force: true });
      rmSync(file);
      rmSync(join(dataFolder, "log"), { recursive: true });
    }
  });

  it("is begun anew where the data folder was deleted, beside what that had elsewhere", async () => {
    const place = await choose();
    makeCluster(place);
    rmSync(dataFolder, { recursive: true });
    mkdirSync(dataFolder, { mode: 0o700 });
    const again = await choose();
    expect(again.isPasswordNew).toBe(false);
    expect(existsSync(join(again.dataDir, "PG_VERSION"))).toBe(false);
    expect(existsSync(join(place.dataDir, "PG_VERSION"))).toBe(isRoot);
  });

  describe.runIf(isRoot)("elsewhere", () => {
    it("is refused to a copy as long as the original is there, and goes with one that was moved", async () => {
      const place = await choose();
      makeCluster(place);
      const copy = join(newFolder(), "copy");
      cpSync(dataFolder, copy, { recursive: true });
      chmodSync(copy, 0o700);
      await expect(choose(copy)).rejects.toThrow(
        new RegExp(
          `^The PostgreSQL data in \\S+ belong to ${dataFolder}, of which ${copy} is a copy: delete`,
        ),
      );
      rmSync(dataFolder, { recursive: true });
      expect(await choose(copy)).toMatchObject({ dataDir: place.dataDir, password: place.password });
    });

    it("says so where data were moved to where PostgreSQL's user cannot go", async () => {
      chmodSync(dataFolder, 0o755);
      makeCluster(await choose());
      chmodSync(dataFolder, 0o700);
      await expect(choose()).rejects.toThrow(/^PostgreSQL's data are in \S+, which its user .* cannot enter/);
    });
  });

  it("is seen to be enterable whatever PATH says", () => {
    const { PATH } = process.env;
    process.env["PATH"] = "";
    const user = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
    try {
      expect(canEnter(user, dataFolder)).toBe(true);
      expect(canEnter(user, join(dataFolder, "missing"))).toBe(false);
    } finally {
      process.env["PATH"] = PATH;
    }
  });

  it("keeps its password for its owner's eyes alone", async () => {
    const { password } = await choose();
    expect(password).toMatch(/^[0-9a-f]{48}$/);
    expect(statSync(join(dataFolder, "postgres.json")).mode & 0o777).toBe(0o600);
  });
});
