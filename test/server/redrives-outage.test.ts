import { expect, test, vi } from "vitest";

import { type Redrive, RedriveState } from "#gen/weir/admin/v1/dead_letter_pb.ts";

import { readTopic } from "../support/topic.ts";
import { publishRefused, sql, usePoisonedBroker } from "./poison.ts";

const LETTERS = 2_000;

const { suite, broker } = usePoisonedBroker();

async function count(from: string): Promise<number> {
  const [row] = await sql<{ count: number }>(suite.weir, `select count(*)::int as count from ${from}`);
  return row!.count;
}

test("a redrive that a broker's death stops goes on by itself, without a gap: each event is a row once", async () => {
  // The store takes none of them for now.
  const mend = await publishRefused(suite.weir, LETTERS);
  const { deadLetters } = suite.clients;
  const seen = async (name: string): Promise<Redrive> => {
    const { redrive: found } = await deadLetters.getRedrive({ name });
    if (found === undefined) throw new Error("an answer without a redrive");
    return found;
  };
  await vi.waitFor(async () => expect(await count("consumer.dead_letter")).toBe(LETTERS), {
    timeout: 90_000,
    interval: 200,
  });
  await mend();

  const { redrive } = await deadLetters.startRedrive({ maxPerSecond: 400, dryRun: false });
  const { name } = redrive!;
  await expect
    .poll(async () => (await seen(name)).counts?.replayed ?? 0n, { timeout: 20_000, interval: 20 })
    .toBeGreaterThan(0n);
  await broker().kill();
  await expect.poll(async () => (await seen(name)).error, { timeout: 30_000, interval: 100 }).toMatch(/\w/);
  const stopped = await seen(name);
  expect(stopped.state).toBe(RedriveState.RUNNING);
  expect(stopped.counts!.replayed).toBeLessThan(BigInt(LETTERS));

  await broker().start();
  await expect
    .poll(async () => (await seen(name)).state, { timeout: 90_000, interval: 100 })
    .toBe(RedriveState.COMPLETED);
  expect(await seen(name)).toMatchObject({ error: "", counts: { replayed: BigInt(LETTERS) } });
  await expect.poll(() => count("events.event"), { timeout: 60_000, interval: 100 }).toBe(LETTERS);
  expect(await count("consumer.dead_letter where replays = 1")).toBe(LETTERS);

  const again = (await readTopic(suite.weir.brokers, suite.weir.topic)).filter(({ headers }) =>
    headers.some(([header]) => header === "weir-replay-of"),
  );
  const first = [...new Set(again.map(({ value }) => Number(String(value))))];
  // In the order of the key, what came twice (at most a chunk) counted once.
  expect(first).toEqual(Array.from({ length: LETTERS }, (_, n) => n));
  expect(again.length).toBeLessThanOrEqual(LETTERS + 500);
}, 300_000);
