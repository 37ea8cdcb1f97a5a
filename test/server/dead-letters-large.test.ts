import { expect, test } from "vitest";

import { type RecordHeader } from "#kafka/ports.ts";
import { ReplayAction, ReplayOutcome } from "#gen/weir/admin/v1/dead_letter_pb.ts";

import { publish, usePoisoned } from "./poison.ts";

const suite = usePoisoned();

const TOPIC_LIMIT = 2 * 1024 * 1024;

const text = (value: string): Buffer => Buffer.from(value);

test("a list has no more of hostile names than it may, and they are found by their beginning", async () => {
  const source = `/hostile/${"x".repeat(1_880_000)}`;
  const records = Array.from({ length: 5 }, (_, index) => ({
    value: text("1"),
    headers: [
      ["ce_specversion", text("1.0")],
      ["ce_id", text(`h${index}`)],
      ["ce_source", text(source)],
      ["ce_type", text("t")],
      ["ce_time", text(new Date().toISOString())],
    ] satisfies RecordHeader[],
  }));
  await publish(suite.weir, records);
  await suite.untilListed(5);
  const list = (filter: string) =>
    suite.clients.deadLetters.listDeadLetters({ filter, reason: "UNPERSISTABLE" });
  const { deadLetters } = await list("");
  expect(deadLetters).toHaveLength(5);
  for (const { event, detail } of deadLetters) {
    expect(event).toMatch(/^events\/%2Fhostile%2Fx{1015}%E2%80%A6:h\d$/);
    expect(detail.length).toBeLessThan(2_100);
  }
  expect((await list(`source:"/hostile/xxx*"`)).deadLetters).toHaveLength(5);
  // It is not the event of the cut name.
  expect((await list(`source="/hostile/${"x".repeat(1_015)}"`)).deadLetters).toHaveLength(0);
  const { deadLetter } = await suite.clients.deadLetters.getDeadLetter({ name: deadLetters[0]!.name });
  expect(Buffer.from(deadLetter!.record!.headers[2]!.value!).toString()).toBe(source);
}, 60_000);

test("what is too large to be replayed is known beforehand, and stops no other", async () => {
  const reason = "UNKNOWN_MODE";
  const headers = Array.from({ length: 600_000 }, (): RecordHeader => ["", null]);
  const before = Number((await suite.clients.deadLetters.getDeadLetterDepth({})).total);
  const [large, many, small] = await publish(suite.weir, [
    { value: Buffer.alloc(TOPIC_LIMIT - 100) },
    // 1.2 MB on the log.
    { headers },
    { value: Buffer.from("small") },
  ]);
  await suite.untilListed(before + 3);
  const plan = await suite.clients.deadLetters.replayDeadLetters({ reason });
  expect(plan).toMatchObject({
    skipped: 1,
    plan: [
      {
        name: suite.nameOf(large!),
        action: ReplayAction.TOO_LARGE,
        attempt: 0,
        why: expect.stringMatching(/takes 2097\d{3} bytes, and topic .* takes 2097152\.$/) as string,
      },
      { name: suite.nameOf(many!), action: ReplayAction.REPLAY },
      { name: suite.nameOf(small!), action: ReplayAction.REPLAY },
    ],
  });
  const run = await suite.clients.deadLetters.replayDeadLetters({ reason, dryRun: false });
  expect(run).toMatchObject({ published: 2, skipped: 1, refused: 0, stoppedAt: "" });
  expect(run.plan.map(({ outcome }) => outcome)).toEqual([
    ReplayOutcome.UNSPECIFIED,
    ReplayOutcome.PUBLISHED,
    ReplayOutcome.PUBLISHED,
  ]);
}, 60_000);
