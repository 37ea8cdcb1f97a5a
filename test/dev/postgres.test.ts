import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";

import { freePort } from "../../dev/ports.ts";
import { choosePostgresPlace } from "../../dev/postgres-place.ts";
import { postgresUrl, startPostgres } from "../../dev/postgres.ts";

let dataFolder: string;

beforeAll(() => {
  dataFolder = mkdtempSync(join(tmpdir(), "weir-postgres-"));
  chmodSync(dataFolder, 0o711);
});

afterAll(() => rmSync(dataFolder, { recursive: true, force: true }));

/** What a query answers of a PostgreSQL that is started for it as `npm start` does, and stopped. */
async function ask(query: string): Promise<unknown[]> {
  const port = await freePort();
  const place = await choosePostgresPlace(dataFolder);
  const logFile = join(dataFolder, "log", "postgres.log");
  const server = await startPostgres({ ...place, port, logFile });
  try {
    const client = new Client(postgresUrl(port, place.password, "weir"));
    await client.connect();
    const { rows } = await client.query<Record<string, unknown>>(query);
    await client.end();
    return rows;
  } finally {
    await server.stop();
  }
}

it("keeps its data where its password is lost", { timeout: 120_000 }, async () => {
  await ask("CREATE TABLE kept AS SELECT 1 AS event");
  const file = join(dataFolder, "postgres.json");
  const before = readFileSync(file, "utf8");
  writeFileSync(file, "");
  expect(await ask("SELECT event FROM kept")).toEqual([{ event: 1 }]);
  expect(readFileSync(file, "utf8")).not.toBe(before);
  expect(await ask("SELECT event FROM kept")).toEqual([{ event: 1 }]);
});

it("does not begin anew in a folder whose files it does not know", async () => {
  const dataDir = join(dataFolder, "damaged");
  mkdirSync(dataDir);
  writeFileSync(join(dataDir, "base"), "rows");
  const place = await choosePostgresPlace(dataFolder);
  const options = {
    ...place,
    dataDir,
    port: await freePort(),
    logFile: join(dataFolder, "log", "damaged.log"),
  };
  await expect(startPostgres(options)).rejects.toThrow(/^\S+damaged holds files, but no PG_VERSION/);
  expect(existsSync(join(dataDir, "base"))).toBe(true);
});

it("does not run on a copy that was made of a PostgreSQL that runs", async () => {
  const [dataDir, original] = [join(dataFolder, "copy"), join(dataFolder, "original")];
  for (const folder of [dataDir, original]) mkdirSync(folder);
  writeFileSync(join(dataDir, "postmaster.pid"), `${process.pid}\n${original}\n`);
  const place = await choosePostgresPlace(dataFolder);
  const options = { ...place, dataDir, port: await freePort(), logFile: join(dataFolder, "log", "copy.log") };
  await expect(startPostgres(options)).rejects.toThrow(
    `${dataDir} is a copy of ${original}, made while PostgreSQL ran there: stop that, and copy again.`,
  );
});
