import pg from "pg";
import { afterEach, describe, expect, test, vi } from "vitest";

import { takeOver } from "#postgres/claims.ts";
import { createProgress, type Progress } from "#postgres/progress.ts";
import { createProgressHints, PROGRESS_CHANNEL } from "#postgres/progress-hints.ts";

import { silentLogger } from "../support/logger.ts";
import { createProxy, openDatabase, useDatabase } from "./fixture.ts";

const suite = useDatabase();
const cleanUp: (() => PromiseLike<void>)[] = [];
afterEach(async () => {
  for (const each of cleanUp.splice(0).toReversed()) await each();
});

const GROUP = "test.progress";
const MINUTE_MS = 60_000;

/** Moves a checkpoint, as a worker's transaction does. */
async function moveTo(topic: string, partition: number, offset: number): Promise<void> {
  await takeOver(suite.db, { group: GROUP, topic, partition, owner: "test" });
  await suite.db.pool.query(
    "update consumer.checkpoint set next_offset = $3, high_water = $3 where topic = $1 and partition = $2",
    [topic, partition, offset],
  );
}

/** Watches a topic, and answers the last thing that was heard. */
function watch(topic: string, { pollMs = MINUTE_MS, url = suite.url } = {}) {
  const end = new AbortController();
  const log = { ...silentLogger, info: vi.fn<typeof silentLogger.info>() };
  const progress: Progress = createProgress({ database: suite.db, url, group: GROUP, topic, pollMs, log });
  const running = progress.run(end.signal);
  cleanUp.push(async () => {
    end.abort();
    await running;
  });
  const heard: ReadonlyMap<number, bigint>[] = [];
  return { progress, log, heard, following: progress.follow((passed) => heard.push(passed)) };
}

/** Resolves when somebody listens on the channel of hints of this database. */
async function untilListening(): Promise<void> {
  await expect
    .poll(async () => {
      const { rows } = await suite.db.pool.query<{ count: number }>(
        "select count(*)::int as count from pg_stat_activity where datname = current_database() and query = $1",
        [`listen ${PROGRESS_CHANNEL}`],
      );
      return rows[0]!.count;
    })
    .toBe(1);
}

describe("hints of progress", () => {
  test("are one at once and then few, however often a checkpoint moves, and the last one tells the last offset", async () => {
    const client = new pg.Client({ connectionString: suite.url });
    await client.connect();
    cleanUp.push(() => client.end());
    const heard: string[] = [];
    client.on("notification", ({ payload }) => heard.push(payload ?? ""));
    await client.query(`listen ${PROGRESS_CHANNEL}`);
    const hints = createProgressHints(suite.db, silentLogger);
    hints.passed(3, 7n);
    await expect.poll(() => heard).toEqual(["3:7"]);
    for (let offset = 1; offset <= 1_000; offset += 1) {
      hints.passed(0, BigInt(offset));
      hints.passed(1, BigInt(offset));
      if (offset % 100 === 0) await new Promise(setImmediate);
    }
    await expect.poll(() => heard.slice(-2).toSorted()).toEqual(["0:1000", "1:1000"]);
    expect(heard.length).toBeLessThan(20);
  });

  test("harm nobody where they cannot be sent", async () => {
    const proxy = await createProxy(suite.url);
    const db = openDatabase(proxy.url);
    cleanUp.push(
      () => proxy[Symbol.asyncDispose](),
      () => db[Symbol.asyncDispose](),
    );
    const debug = vi.fn<typeof silentLogger.debug>();
    const hints = createProgressHints(db, { debug });
    await proxy.cut();
    hints.passed(0, 1n);
    await expect.poll(() => debug.mock.calls.length).toBe(1);
    await proxy.restore();
    hints.passed(0, 2n);
    await expect.poll(async () => (await db.probes.query("select 1")).rowCount).toBe(1);
    expect(debug).toHaveBeenCalledTimes(1);
  });
});

describe("progress", () => {
  test("is told when it is first asked for, and at a hint", async () => {
    await moveTo("hinted", 0, 5);
    const { heard } = watch("hinted");
    await expect.poll(() => heard.at(-1)).toEqual(new Map([[0, 5n]]));
    await untilListening();
    await moveTo("hinted", 1, 9);
    createProgressHints(suite.db, silentLogger).passed(1, 9n);
    await expect.poll(() => heard.at(-1)?.get(1)).toBe(9n);
  });

  test("is looked up without any hint from time to time", async () => {
    const { heard } = watch("polled", { pollMs: 50 });
    await expect.poll(() => heard.length).toBeGreaterThan(0);
    expect(heard[0]).toEqual(new Map());
    await moveTo("polled", 0, 1);
    await expect.poll(() => heard.at(-1)?.get(0)).toBe(1n);
  });

  test("is told at once after the connection was lost and is there again", async () => {
    const proxy = await createProxy(suite.url);
    cleanUp.push(() => proxy[Symbol.asyncDispose]());
    const { heard, log } = watch("lost", { url: proxy.url });
    await untilListening();
    await proxy.cut();
    await moveTo("lost", 0, 3);
    await proxy.restore();
    await expect.poll(() => heard.at(-1)?.get(0), { timeout: 5_000 }).toBe(3n);
    expect(log.info).toHaveBeenCalledWith("Notifications are heard again");
  });

  test("costs no statement while nobody follows it", async () => {
    const query = vi.spyOn(suite.db.pool, "query");
    cleanUp.push(() => Promise.resolve(query.mockRestore()));
    const { heard, following, progress } = watch("asleep", { pollMs: 50 });
    await expect.poll(() => heard.length).toBeGreaterThan(2);
    following[Symbol.dispose]();
    // What was under way when it was let go may still come.
    await new Promise((resolve) => setTimeout(resolve, 100));
    query.mockClear();
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(query).not.toHaveBeenCalled();
    const count = heard.length;
    progress.follow((passed) => heard.push(passed));
    await expect.poll(() => heard.length).toBeGreaterThan(count);
  });
});
