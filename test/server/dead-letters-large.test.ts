import { expect, test } from "vitest";

import { type RecordHeader } from "#kafka/ports.ts";
import { ReplayAction, ReplayOutcome } from "#gen/weir/admin/v1/dead_letter_pb.ts";

import { publish, usePoisoned } from "./poison.ts";

const suite = usePoisoned();

const TOPIC_LIMIT = 2 * 1024 * 1024;

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
