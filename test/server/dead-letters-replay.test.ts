import { Code } from "@connectrpc/connect";
import { beforeAll, describe, expect, test } from "vitest";

import { encodeDeadLetter } from "#core/dead-letter.ts";
import { timestampFrom } from "#core/timestamp.ts";
import { RedriveState, ReplayAction, ReplayOutcome } from "#gen/weir/admin/v1/dead_letter_pb.ts";
import { type RecordHeader } from "#kafka/ports.ts";

import { createWeirAdminClient } from "../../sdk/admin.ts";
import { readTopic } from "../support/topic.ts";
import { refusalOf } from "./clients.ts";
import { POISON, publish, publishPoison, sql, usePoisoned } from "./poison.ts";

const soon = { timeout: 20_000, interval: 50 };
const bytes = (text: string): Buffer => Buffer.from(text);

const suite = usePoisoned();

beforeAll(() => publishPoison(suite), 90_000);

describe("a replay", () => {
  test("is a plan unless the caller says otherwise, and publishes nothing", async () => {
    const end = await suite.logEnd();
    const all = await suite.clients.deadLetters.replayDeadLetters({});
    expect(all).toMatchObject({ published: 0, skipped: 0, stoppedAt: "", dryRun: true, truncated: false });
    // The oldest first.
    expect(all.plan.map(({ name }) => name)).toEqual([suite.nameOf(0), suite.nameOf(0, 1), suite.nameOf(1)]);
    expect(all.plan).toMatchObject(
      all.plan.map(() => ({ action: ReplayAction.REPLAY, attempt: 1, outcome: ReplayOutcome.UNSPECIFIED })),
    );
    const some = await suite.clients.deadLetters.replayDeadLetters({ limit: 1, dryRun: true });
    expect(some).toMatchObject({ plan: [{ name: suite.nameOf(0) }], scanned: 1n, truncated: true });
    const { nextPageToken: pageToken } = some;
    const next = await suite.clients.deadLetters.replayDeadLetters({ limit: 1, pageToken });
    expect(next.plan).toMatchObject([{ name: suite.nameOf(0, 1) }]);
    expect(await suite.logEnd()).toBe(end);
  });

  test("refuses names together with a choice, and too many", async () => {
    const refusal = await refusalOf(
      suite.clients.deadLetters.replayDeadLetters({
        names: ["x", ...Array<string>(200).fill(suite.nameOf(0))],
        reason: "MALFORMED",
        limit: -1,
      }),
    );
    expect(refusal.code).toBe(Code.InvalidArgument);
    expect(refusal.violations.map(({ field }) => field).toSorted()).toEqual([
      "limit",
      "names",
      "names",
      "names[0]",
    ]);
  });

  test("of names is all or nothing, and tells every name that cannot be", async () => {
    await suite.insertLetter({ offset: 7_000, topic: "other.topic" });
    await suite.insertLetter({ offset: 7_001, group: "other.group" });
    await suite.insertLetter({ offset: 7_002, attempt: 3 });
    await suite.insertLetter({ offset: 7_003 });
    // A letter that stands where the index says and speaks of another topic.
    const forged = encodeDeadLetter({
      reason: "MALFORMED",
      detail: "",
      group: suite.group,
      position: { topic: "weir.other", partition: 0, offset: 7_004n },
      timestamp: 0,
      attempt: 0,
      key: null,
      headers: [],
      value: null,
      time: timestampFrom(1_700_000_000, 0),
    });
    const [at] = await publish(
      suite.weir,
      [{ key: bytes(`${suite.group}/${suite.weir.topic}/0/7004`), value: forged.value }],
      suite.weir.deadLetterTopic,
    );
    await suite.insertLetter({ offset: 7_004, letterOffset: at! });
    const names = [
      suite.nameOf(0),
      suite.nameOf(7_000, 0, "other.topic"),
      suite.nameOf(7_001, 0, suite.weir.topic, "other.group"),
      suite.nameOf(7_002),
      suite.nameOf(7_003),
      suite.nameOf(7_004),
      suite.nameOf(7_005),
      suite.nameOf(0),
    ];
    const end = await suite.logEnd();
    const { plan, skipped } = await suite.clients.deadLetters.replayDeadLetters({ names });
    expect(skipped).toBe(6);
    expect(new Map(plan.map(({ name, action }) => [name, action]))).toEqual(
      new Map([
        [names[0], ReplayAction.REPLAY],
        [names[1], ReplayAction.FOREIGN_TOPIC],
        [names[2], ReplayAction.FOREIGN_TOPIC],
        [names[3], ReplayAction.BUDGET_EXHAUSTED],
        [names[4], ReplayAction.UNDECODABLE],
        [names[5], ReplayAction.FOREIGN_TOPIC],
        [names[6], ReplayAction.NOT_FOUND],
      ]),
    );
    const refusal = await refusalOf(suite.clients.deadLetters.replayDeadLetters({ names, dryRun: false }));
    expect(refusal).toMatchObject({ code: Code.FailedPrecondition, reason: "REPLAY_SET_UNSATISFIABLE" });
    expect(refusal.violations.map(({ field }) => field).toSorted()).toEqual(names.slice(1, 7).toSorted());
    expect(await suite.logEnd()).toBe(end);
    // Chosen by reason they are passed over, one by one.
    const chosen = await suite.clients.deadLetters.replayDeadLetters({ reason: "MALFORMED" });
    expect(chosen.plan.map(({ action }) => action)).toEqual([
      ReplayAction.REPLAY,
      ReplayAction.FOREIGN_TOPIC,
      ReplayAction.BUDGET_EXHAUSTED,
      ReplayAction.UNDECODABLE,
      ReplayAction.FOREIGN_TOPIC,
    ]);
    await sql(suite.weir, 'delete from consumer.dead_letter where "offset" between 7000 and 7005');
  });

  test("of a record that fails again and again makes a new letter each time, up to the budget", async () => {
    await suite.untilListed(3);
    // By the SDK, whose calls are served by the short way (server/http/unary.ts).
    const sdk = createWeirAdminClient({ baseUrl: suite.weir.baseUrl, token: () => suite.weir.token() });
    for (const attempt of [1, 2, 3]) {
      const run = await sdk.deadLetters.replayDeadLetters({
        reason: "UNKNOWN_MODE",
        dryRun: false,
      });
      expect(run).toMatchObject({ published: 2, skipped: 0, stoppedAt: "", dryRun: false });
      expect(run.plan).toMatchObject(
        run.plan.map(() => ({ action: ReplayAction.REPLAY, attempt, outcome: ReplayOutcome.PUBLISHED })),
      );
      await suite.untilListed(3 + 2 * attempt);
      const { deadLetters } = await suite.clients.deadLetters.listDeadLetters({ pageSize: 2 });
      expect(deadLetters.map((letter) => [letter.attempt, letter.replays])).toEqual([
        [attempt, 0],
        [attempt, 0],
      ]);
    }
    const end = await suite.logEnd();
    const spent = await suite.clients.deadLetters.replayDeadLetters({
      reason: "UNKNOWN_MODE",
      dryRun: false,
    });
    expect(spent).toMatchObject({ published: 0, skipped: 2 });
    expect(spent.plan.map(({ action }) => action)).toEqual([
      ReplayAction.BUDGET_EXHAUSTED,
      ReplayAction.BUDGET_EXHAUSTED,
    ]);
    expect(await suite.logEnd()).toBe(end);

    const records = await readTopic(suite.weir.brokers, suite.weir.topic);
    const last = records.filter(({ headers }) =>
      headers.some(([name, value]) => name === "weir-replay-attempt" && String(value) === "3"),
    );
    expect(last).toHaveLength(2);
    const original = last.find(({ key }) => String(key) === "/shop")!;
    expect(original.headers.slice(0, 3)).toEqual(POISON[0]!.headers);
    expect(original.headers.slice(3).map(([name, value]) => [name, String(value)])).toEqual([
      ["weir-replay-attempt", "3"],
      ["weir-replay-of", expect.stringContaining(`deadLetters/${suite.group}:${suite.weir.topic}:`)],
    ]);
    expect(original.value).toEqual(POISON[0]!.value);
    expect(original.timestamp).toBe(POISON[0]!.timestamp);
    // A letter that was replayed is marked, and can be replayed by its name until the budget is spent.
    const { deadLetter } = await suite.clients.deadLetters.getDeadLetter({ name: suite.nameOf(0) });
    expect(deadLetter!.replays).toBe(1);
    expect(deadLetter!.replayTime).toBeDefined();
    const { replayed, total } = await suite.clients.deadLetters.getDeadLetterDepth({});
    expect({ replayed, total }).toEqual({ replayed: 6n, total: 9n });
    const { plan } = await suite.clients.deadLetters.replayDeadLetters({ names: [suite.nameOf(0)] });
    expect(plan).toMatchObject([{ action: ReplayAction.REPLAY, attempt: 2 }]);
  }, 60_000);

  test("of the same letters by six calls and a redrive at once publishes each letter once", async () => {
    const before = Number((await suite.clients.deadLetters.getDeadLetterDepth({})).total);
    const headers: RecordHeader[] = [["content-type", bytes("application/cloudevents+json")]];
    await publish(
      suite.weir,
      Array.from({ length: 40 }, (_, n) => ({ key: bytes(`/${n}`), value: bytes(`{${n}`), headers })),
    );
    await suite.untilListed(before + 40);
    const { plan } = await suite.clients.deadLetters.replayDeadLetters({
      filter: "partition = 0",
      reason: "MALFORMED",
    });
    expect(plan).toHaveLength(40);
    const run = () =>
      suite.clients.deadLetters.replayDeadLetters({ names: plan.map(({ name }) => name), dryRun: false });
    const [redrive, ...runs] = await Promise.all([
      suite.clients.deadLetters.startRedrive({ filter: "partition = 0", reason: "MALFORMED", dryRun: false }),
      ...Array.from({ length: 6 }, run),
    ]);
    await expect
      .poll(
        async () =>
          (await suite.clients.deadLetters.getRedrive({ name: redrive.redrive!.name })).redrive!.state,
        soon,
      )
      .toBe(RedriveState.COMPLETED);
    await suite.untilListed(before + 80);
    const records = await readTopic(suite.weir.brokers, suite.weir.topic);
    const names = new Set(plan.map(({ name }) => name));
    const replays = records.flatMap(({ headers: all }) =>
      all.filter(([name, value]) => name === "weir-replay-of" && names.has(Buffer.from(value!).toString())),
    );
    expect(replays).toHaveLength(40);
    const outcomes = runs.flatMap((each) => each.plan.map(({ outcome }) => outcome));
    const expected: ReplayOutcome[] = [ReplayOutcome.PUBLISHED, ReplayOutcome.SUPERSEDED];
    expect(outcomes.every((outcome) => expected.includes(outcome))).toBe(true);
    const rows = await sql<{ replays: number }>(
      suite.weir,
      `select replays from consumer.dead_letter where 'deadLetters/' || group_id || ':' || topic || ':' || partition || ':' || "offset" = any($1)`,
      [[...names]],
    );
    expect(rows.map(({ replays: times }) => times)).toEqual(Array(40).fill(1));
  }, 60_000);

  test("after a fix stores what could not be stored, once, in the order of its key", async () => {
    await sql(
      suite.weir,
      `create function break() returns trigger language plpgsql as $$ begin
         if new.type = 'com.example.unlucky' then raise exception 'not yet' using errcode = '22023'; end if; return new; end $$;
       create trigger broken before insert on events.event for each row execute function break()`,
    );
    const before = Number((await suite.clients.deadLetters.getDeadLetterDepth({})).total);
    const events = Array.from({ length: 5 }, (_, n) => ({
      id: `unlucky-${n}`,
      source: "/unlucky",
      specVersion: "1.0",
      type: "com.example.unlucky",
      attributes: {
        time: {
          attr: { case: "ceTimestamp" as const, value: { seconds: BigInt(Math.floor(Date.now() / 1000)) } },
        },
      },
      data: { case: "textData" as const, value: `${n}` },
    }));
    await suite.clients.ingest.batchCreateEvents({ events });
    await suite.untilListed(before + 5);
    const { deadLetters } = await suite.clients.deadLetters.listDeadLetters({ reason: "UNPERSISTABLE" });
    expect(deadLetters.map(({ event }) => event).toSorted()).toEqual(
      events.map(({ id }) => `events/%2Funlucky:${id}`),
    );
    await sql(suite.weir, "drop trigger broken on events.event");
    const run = await suite.clients.deadLetters.replayDeadLetters({ reason: "UNPERSISTABLE", dryRun: false });
    expect(run).toMatchObject({ published: 5, stoppedAt: "", truncated: false });
    const offsets = run.plan.map(({ position }) => position!.offset);
    expect(offsets).toEqual(offsets.toSorted((a, b) => Number(a - b)));
    for (const { id } of events) {
      await expect
        .poll(
          () =>
            suite.clients.search.getEvent({ name: `events/%2Funlucky:${id}` }).then(
              () => true,
              () => false,
            ),
          soon,
        )
        .toBe(true);
    }
    const rows = await sql<{ id: string }>(
      suite.weir,
      "select id from events.event where source = '/unlucky' order by partition, \"offset\"",
    );
    expect(rows.map(({ id }) => id)).toEqual(events.map(({ id }) => id));
    // None is left that was never replayed.
    expect(await suite.clients.deadLetters.replayDeadLetters({ reason: "UNPERSISTABLE" })).toMatchObject({
      plan: [],
    });
  }, 60_000);
});
