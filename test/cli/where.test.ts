import { tmpdir } from "node:os";
import { stripVTControlCharacters } from "node:util";
import { create } from "@bufbuild/protobuf";
import { afterAll, beforeAll, expect, test } from "vitest";

import { GetEventJourneyResponseSchema } from "#gen/weir/v1/search_pb.ts";
import { insertEvents } from "#postgres/events.ts";
import { transaction } from "#postgres/tx.ts";

import { describeJourney, journeyAsJson } from "../../cli/where.ts";
import { openDatabase, sketchEvent } from "../postgres/fixture.ts";
import { startWeir, type Weir } from "../support/weir.ts";
import { type Run, startCommand } from "./command.ts";

let weir: Weir;
let token: string;
beforeAll(async () => {
  weir = await startWeir();
  token = await weir.token({ scope: "events.read" });
  await using database = openDatabase(weir.databaseUrl);
  const stored = sketchEvent({ id: "order 1", source: "/shop", topic: weir.topic, offset: 7n });
  await transaction(database, (tx) => insertEvents(tx, [stored]));
});
afterAll(() => weir[Symbol.asyncDispose]());

function run(...args: readonly string[]): Promise<Run> {
  const env = { WEIR_URL: weir.baseUrl, WEIR_TOKEN: token };
  return startCommand(["where", ...args], { cwd: tmpdir(), env }).ended;
}

test("prints the journey as lines of JSON in a pipe, by name and by source and id", async () => {
  for (const args of [
    ["events/%2Fshop:order%201"],
    ["/shop", "order 1"],
    ["/shop", "order 1", "--at", `${weir.topic}/0/7`],
  ]) {
    const { code, stdout, stderr } = await run(...args);
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).not.toContain("$");
    const lines = stdout.trim().split("\n");
    expect(lines.map((line) => JSON.parse(line) as unknown)).toMatchObject([
      { position: { topic: weir.topic, offset: "7" }, accepted: { principal: "alice" } },
      { position: { topic: weir.topic, offset: "7" }, stored: {} },
    ]);
  }
});

test("says that nothing is known, and what is wrong with the command", async () => {
  const unseen = await run("/shop", "none");
  expect([unseen.code, unseen.stdout]).toEqual([1, ""]);
  expect(unseen.stderr).toContain("Nothing has been seen of");
  expect((await run("/shop", "order 1", "--time", "1970-01-01T00:00:00Z")).code).toBe(1);
  for (const args of [
    [],
    ["a", "b", "c"],
    ["/shop", "order 1", "--at", "somewhere"],
    ["/shop", "order 1", "--time", "once"],
    ["not a name"],
  ])
    expect(await run(...args)).toMatchObject({ code: 2, stdout: "" });
});

const time = (seconds: number) => ({ seconds: BigInt(seconds), nanos: 123_456_789 });
const at = (offset: bigint) => ({ topic: "events", partition: 3, offset });

test("a journey is told a line for each station, with what is known and what is not", () => {
  const journey = create(GetEventJourneyResponseSchema, {
    stations: [
      { time: time(0), position: at(1n), station: { case: "accepted", value: { principal: "alice" } } },
      {
        time: time(1),
        position: at(1n),
        station: {
          case: "deadLettered",
          value: {
            deadLetter: "deadLetters/g:events:3:1",
            reason: "UNPERSISTABLE",
            detail: "no",
            attempt: 0,
          },
        },
      },
      {
        time: time(2),
        position: at(9n),
        station: { case: "replayed", value: { principal: "bob", cause: "redrives/1", attempt: 1 } },
      },
      { station: { case: "replayed", value: {} } },
      { time: time(3), position: at(9n), station: { case: "stored", value: {} } },
      { time: time(4), position: at(10n), station: { case: "duplicate", value: {} } },
      { time: time(5), position: at(11n), station: { case: "duplicate", value: { differs: true } } },
      { time: time(6), position: at(12n), station: { case: "skipped", value: { kind: "LOST" } } },
      { time: time(7) },
    ],
    inFlight: [{ position: at(13n), highWater: 12n, logEnd: 20n }, { position: at(14n) }],
    otherTimes: [time(-1)],
    truncated: true,
    unknown: ["What the log has: Kafka cannot be reached."],
  });
  expect(stripVTControlCharacters(describeJourney(journey))).toBe(
    `1970-01-01T00:00:00.123Z  accepted by alice events/3/1
1970-01-01T00:00:01.123Z  set aside: UNPERSISTABLE, no (deadLetters/g:events:3:1) events/3/1
1970-01-01T00:00:02.123Z  replayed by bob in redrives/1 events/3/9
at a time unknown         replayed
1970-01-01T00:00:03.123Z  stored events/3/9
1970-01-01T00:00:04.123Z  came again, the same events/3/10
1970-01-01T00:00:05.123Z  came again and differs: not stored events/3/11
1970-01-01T00:00:06.123Z  passed over: LOST events/3/12
1970-01-01T00:00:07.123Z  something that this version does not know
in flight events/3/13; 1 to be consumed before it, 8 in its partition in all
in flight events/3/14
There is more of it than is shown.
Not known: What the log has: Kafka cannot be reached.
Another event has this name, of the time 1969-12-31T23:59:59.123Z: --time tells of it.
`,
  );
  expect(
    journeyAsJson(journey)
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as unknown),
  ).toMatchObject([
    { time: "1970-01-01T00:00:00.123Z", position: { offset: "1" }, accepted: { principal: "alice" } },
    { deadLettered: { reason: "UNPERSISTABLE" } },
    { position: { offset: "9" }, replayed: { principal: "bob", cause: "redrives/1", attempt: 1 } },
    { replayed: {} },
    { stored: {} },
    { duplicate: { differs: false } },
    { duplicate: { differs: true } },
    { skipped: { kind: "LOST" } },
    { time: "1970-01-01T00:00:07.123Z" },
    { inFlight: { position: { offset: "13" }, highWater: "12", logEnd: "20" } },
    { inFlight: { position: { offset: "14" } } },
    { truncated: true },
    { unknown: "What the log has: Kafka cannot be reached." },
    { otherTime: "1969-12-31T23:59:59.123Z" },
  ]);
});
