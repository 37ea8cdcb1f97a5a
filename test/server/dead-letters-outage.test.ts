import { expect, test, vi } from "vitest";

import { ReplayOutcome } from "#gen/weir/admin/v1/dead_letter_pb.ts";

import { readTopic } from "../support/topic.ts";
import { publish, publishRefused, sql, usePoisonedBroker } from "./poison.ts";

const LETTERS = 150;

const { suite, broker } = usePoisonedBroker();

async function replayed(): Promise<number> {
  const [row] = await sql<{ count: number }>(
    suite.weir,
    "select count(*)::int as count from consumer.dead_letter where replays > 0",
  );
  return row!.count;
}

test("a replay that a broker's death stops midway says where, and run again goes on from there", async () => {
  // Of one key, so that the log's order is the letters'. The first event of each is refused by the store for now.
  const mend = await publishRefused(suite.weir, LETTERS);
  await suite.untilListed(LETTERS);
  await mend();

  const running = suite.clients.deadLetters.replayDeadLetters({ dryRun: false });
  await vi.waitFor(async () => expect(await replayed()).toBeGreaterThan(10), {
    timeout: 20_000,
    interval: 5,
  });
  await broker().kill();
  const first = await running;
  expect(first.published).toBeGreaterThan(10);
  expect(first.published).toBeLessThan(LETTERS);
  expect(first.stoppedAt).toBe(first.plan[first.published]!.name);
  expect(["PRODUCER_UNAVAILABLE", "PUBLISH_OUTCOME_UNKNOWN"]).toContain(first.stopReason);
  expect(first.nextPageToken).toBe("");
  const outcomes = first.plan.map(({ outcome }) => outcome);
  expect(outcomes.slice(0, first.published)).toEqual(Array(first.published).fill(ReplayOutcome.PUBLISHED));
  expect([ReplayOutcome.REFUSED, ReplayOutcome.UNKNOWN]).toContain(outcomes[first.published]);
  expect(first.plan[first.published]!.why).toMatch(/\w/);
  expect(outcomes.slice(first.published + 1)).toEqual(
    Array(LETTERS - first.published - 1).fill(ReplayOutcome.NOT_REACHED),
  );
  expect(await replayed()).toBe(first.published);

  await broker().start();
  const second = await vi.waitFor(() => suite.clients.deadLetters.replayDeadLetters({ dryRun: false }), {
    timeout: 40_000,
    interval: 500,
  });
  expect(second).toMatchObject({ published: LETTERS - first.published, stoppedAt: "" });
  expect(second.plan[0]!.name).toBe(first.stoppedAt);
  await vi.waitFor(
    async () => {
      const [row] = await sql<{ count: number }>(
        suite.weir,
        "select count(*)::int as count from events.event",
      );
      expect(row!.count).toBe(LETTERS);
    },
    { timeout: 40_000, interval: 100 },
  );

  // Every letter is on the log again in order; one whose outcome was unknown perhaps twice, which is a repeat.
  const again = (await readTopic(suite.weir.brokers, suite.weir.topic)).filter(({ headers }) =>
    headers.some(([name]) => name === "weir-replay-of"),
  );
  const ids = again.map(({ value }) => Number(String(value)));
  expect([...new Set(ids)]).toEqual(Array.from({ length: LETTERS }, (_, n) => n));
  expect(ids.length).toBeLessThanOrEqual(LETTERS + 1);
  const { auditEntries } = await suite.clients.audit.listAuditEntries({});
  const results = auditEntries.map(({ result }) => result);
  expect(results.at(0)).toBe("OK");
  expect(results.at(-1)).toBe(first.stopReason);
  expect(auditEntries.at(-1)!.detail).toMatchObject({
    outcome: { published: first.published, stoppedAt: first.stoppedAt },
  });
}, 180_000);

test("a call that its server's death cuts off stays in the audit as started", async () => {
  await publish(suite.weir, [{ value: Buffer.from("no event") }]);
  await suite.untilListed(LETTERS + 1);
  const { deadLetters } = suite.clients;
  // The brokers take questions and answer none, so that the call is under way for a while.
  broker().proxy.mode = "stall";
  const cut = deadLetters.replayDeadLetters({ dryRun: false }).then(
    () => "answered",
    () => "cut off",
  );
  const entries = (): Promise<readonly { result: string }[]> =>
    sql(suite.weir, "select result from admin.audit_entry order by id desc limit 1");
  await vi.waitFor(async () => expect(await entries()).toEqual([{ result: "STARTED" }]), {
    timeout: 10_000,
    interval: 10,
  });
  process.kill(suite.weir.server.pid, "SIGKILL");
  expect(await cut).toBe("cut off");
  await suite.weir.server.exited;
  expect(await entries()).toEqual([{ result: "STARTED" }]);
}, 60_000);
