import { Code } from "@connectrpc/connect";
import pg from "pg";
import { beforeAll, describe, expect, test } from "vitest";

import { type LogPosition } from "#gen/weir/v1/event_pb.ts";

import { createClients, refusalOf } from "./clients.ts";
import { sketch, toMessage } from "./events.ts";
import { journeyOf, placeOf } from "./journey.ts";
import { publish, sql, usePoisoned } from "./poison.ts";

const soon = { timeout: 20_000, interval: 50 };
const suite = usePoisoned();

/** Sends an event and answers where it is. */
async function send(attributes: Record<string, string>, data?: string): Promise<LogPosition> {
  const { receipt } = await suite.clients.ingest.createEvent({ event: toMessage(sketch(attributes, data)) });
  return receipt!.position!;
}

const linesOf = async (name: string): Promise<readonly string[]> =>
  journeyOf(suite.clients, { name }).then(
    ({ lines }) => lines,
    () => [],
  );

/** Resolves with the lines of a journey once it has so many. */
async function untilLines(name: string, count: number): Promise<readonly string[]> {
  await expect.poll(async () => (await linesOf(name)).length, soon).toBe(count);
  return linesOf(name);
}

beforeAll(async () => {
  await sql(
    suite.weir,
    `create function break() returns trigger language plpgsql as $$ begin
       if new.type = 'com.example.unlucky' then raise exception 'not yet' using errcode = '22023'; end if; return new; end $$;
     create trigger broken before insert on events.event for each row execute function break()`,
  );
});

/** Runs while the workers can store nothing: their checkpoints are locked. */
async function whileHeld<T>(work: () => Promise<T>): Promise<T> {
  const holder = new pg.Client({ connectionString: suite.weir.databaseUrl });
  await holder.connect();
  try {
    await holder.query("begin; lock table consumer.checkpoint in exclusive mode");
    return await work();
  } finally {
    await holder.end();
  }
}

describe("a journey", () => {
  test("of a stored event is its acceptance and its row, each with its time and place", async () => {
    const time = new Date().toISOString();
    const position = await send({ source: "/a", id: "stored", time }, "hello");
    const place = placeOf(position);
    await untilLines("events/%2Fa:stored", 2);
    const journey = await journeyOf(suite.clients, { name: "events/%2Fa:stored" });
    expect(journey.lines).toEqual([`accepted ${place} from alice`, `stored ${place}`]);
    expect(journey).toMatchObject({ inFlight: [], otherTimes: [], truncated: false, unknown: [] });
    expect(journey.event).toMatchObject({ name: "events/%2Fa:stored", dataSize: 5n, position });
    expect(journey.event!.cloudEvent!.data.case).toBeUndefined();
    const times = journey.stations.map(({ time: each }) => Number(each!.seconds) * 1_000 + each!.nanos / 1e6);
    expect(times[0]).toBe(
      Number(journey.event!.receiveTime!.seconds) * 1_000 + journey.event!.receiveTime!.nanos / 1e6,
    );
    expect(times[1]! - times[0]!).toBeGreaterThan(-1_000);
    expect(times[1]! - times[0]!).toBeLessThan(20_000);
    // By its position, and by its time, it is the same one.
    const again = await journeyOf(suite.clients, { name: "events/%2Fa:stored", position });
    expect([again.lines, again.unknown]).toEqual([journey.lines, []]);
    const seconds = BigInt(Math.floor(Date.parse(time) / 1_000));
    const asked = { name: "events/%2Fa:stored", time: { seconds, nanos: (Date.parse(time) % 1_000) * 1e6 } };
    expect((await journeyOf(suite.clients, asked)).lines).toEqual(journey.lines);
  });

  test("has each repeat, and says which of them differ; the log tells when the one at the position came", async () => {
    const time = new Date().toISOString();
    const first = await send({ source: "/a", id: "again", time }, "one");
    await untilLines("events/%2Fa:again", 2);
    const same = await send({ source: "/a", id: "again", time }, "one");
    await untilLines("events/%2Fa:again", 3);
    const other = await send({ source: "/a", id: "again", time }, "two");
    expect(await untilLines("events/%2Fa:again", 4)).toEqual([
      `accepted ${placeOf(first)} from alice`,
      `stored ${placeOf(first)}`,
      `duplicate ${placeOf(same)}`,
      `conflict ${placeOf(other)}`,
    ]);
    const { lines } = await journeyOf(suite.clients, { name: "events/%2Fa:again", position: other });
    expect(lines).toEqual([
      `accepted ${placeOf(first)} from alice`,
      `stored ${placeOf(first)}`,
      `duplicate ${placeOf(same)}`,
      `accepted ${placeOf(other)} from alice`,
      `conflict ${placeOf(other)}`,
    ]);
  });

  test("is that of one event where several have its name, and tells the times of the others", async () => {
    const now = Date.now();
    const at = (index: number): string => new Date(now - index * 60_000).toISOString();
    const first = await send({ source: "/a", id: "shared", time: at(1) });
    await untilLines("events/%2Fa:shared", 2);
    const second = await send({ source: "/a", id: "shared", time: at(2), type: "com.example.unlucky" });
    await expect
      .poll(async () => (await journeyOf(suite.clients, { name: "events/%2Fa:shared" })).otherTimes, soon)
      .toHaveLength(1);
    const journey = await journeyOf(suite.clients, { name: "events/%2Fa:shared" });
    expect(journey.lines).toEqual([`accepted ${placeOf(first)} from alice`, `stored ${placeOf(first)}`]);
    expect(Number(journey.otherTimes[0]!.seconds)).toBe(Math.floor(Date.parse(at(2)) / 1_000));
    const letter = [`accepted ${placeOf(second)} from alice`, `dead-lettered ${placeOf(second)} attempt 0`];
    for (const one of [{ position: second }, { time: journey.otherTimes[0]! }]) {
      const other = await journeyOf(suite.clients, { name: "events/%2Fa:shared", ...one });
      expect(other.lines).toEqual(letter);
      expect(other.event).toBeUndefined();
      expect(Number(other.otherTimes[0]!.seconds)).toBe(Math.floor(Date.parse(at(1)) / 1_000));
    }
  });

  test("goes from a dead letter over who replayed it, and by what, up to the budget", async () => {
    const position = await send({ source: "/b", id: "spent", type: "com.example.unlucky" });
    const name = "events/%2Fb:spent";
    await untilLines(name, 2);
    const bob = createClients(suite.weir.baseUrl, await suite.weir.token({ sub: "bob" }));
    for (const attempt of [1, 2, 3]) {
      const { stations } = await journeyOf(suite.clients, { name });
      const last = stations.at(-1)!.station;
      if (last.case !== "deadLettered") throw new Error("it is no dead letter");
      await bob.deadLetters.replayDeadLetters({ names: [last.value.deadLetter], dryRun: false });
      await untilLines(name, 2 + 2 * attempt);
    }
    const { lines, stations, event } = await journeyOf(suite.clients, { name });
    const at = (index: number): string => placeOf(stations[index]!.position!);
    expect(lines).toEqual([
      `accepted ${placeOf(position)} from alice`,
      `dead-lettered ${placeOf(position)} attempt 0`,
      ...[1, 2, 3].flatMap((attempt) => [
        `replayed ${at(2 * attempt)} attempt ${attempt} by bob in auditEntries`,
        `dead-lettered ${at(2 * attempt)} attempt ${attempt}`,
      ]),
    ]);
    expect(new Set(stations.map((_, index) => at(index))).size).toBe(4);
    expect(event).toBeUndefined();
    expect(stations[1]!.station.value).toMatchObject({
      deadLetter: suite.nameOf(position.offset, position.partition),
      reason: "UNPERSISTABLE",
      detail: expect.stringContaining("not yet") as string,
    });
    // The evidence is there to be read.
    const { auditEntries } = await suite.clients.audit.listAuditEntries({ pageSize: 50 });
    const causes = stations.flatMap(({ station }) =>
      station.case === "replayed" ? station.value.cause : [],
    );
    expect(causes).toHaveLength(3);
    for (const cause of causes) {
      expect(auditEntries.find((entry) => entry.name === cause)).toMatchObject({
        principal: "bob",
        method: "weir.admin.v1.DeadLetterAdminService/ReplayDeadLetters",
      });
    }
  }, 60_000);

  test("goes on from a redrive to the row, by whichever of the places it is asked for", async () => {
    const name = "events/%2Fb:mended";
    const position = await send({ source: "/b", id: "mended", type: "com.example.unlucky" });
    await untilLines(name, 2);
    await sql(suite.weir, "alter table events.event disable trigger broken");
    const { redrive } = await suite.clients.deadLetters.startRedrive({
      filter: 'id = "mended"',
      dryRun: false,
    });
    await untilLines(name, 4);
    await sql(suite.weir, "alter table events.event enable trigger broken");
    const { lines, stations, event } = await journeyOf(suite.clients, { name });
    const row = stations[3]!.position!;
    const expected = [
      `accepted ${placeOf(position)} from alice`,
      `dead-lettered ${placeOf(position)} attempt 0`,
      `replayed ${placeOf(row)} attempt 1 by alice in redrives`,
      `stored ${placeOf(row)}`,
    ];
    expect(lines).toEqual(expected);
    expect(stations[2]!.station.value).toMatchObject({ cause: redrive!.name });
    expect(event!.position).toMatchObject({ offset: row.offset });
    for (const place of [position, row])
      expect((await journeyOf(suite.clients, { name, position: place })).lines).toEqual(expected);
  }, 60_000);

  test("tells of a replay that its letter alone knows what there is: that it was, and when", async () => {
    const name = "events/%2Fb:unnoted";
    const position = await send({ source: "/b", id: "unnoted", type: "com.example.unlucky" });
    await untilLines(name, 2);
    await sql(
      suite.weir,
      "update consumer.dead_letter set replays = 2, replayed_at = now() where id = 'unnoted'",
    );
    const { lines, stations } = await journeyOf(suite.clients, { name });
    expect(lines.slice(2)).toEqual(["replayed ? attempt 0 by  in ", "replayed ? attempt 0 by  in "]);
    expect(stations.slice(2).filter(({ time }) => time !== undefined)).toHaveLength(1);
    expect(lines[0]).toBe(`accepted ${placeOf(position)} from alice`);
  });

  test("of what could not be read as an event is found by its position, and over its replay", async () => {
    const [offset] = await publish(suite.weir, [{ partition: 2, value: Buffer.from("no event") }]);
    const position = { topic: suite.weir.topic, partition: 2, offset: offset! };
    const name = "events/%2Fwhoever:whatever";
    const asked = { name, position };
    await expect
      .poll(async () => (await journeyOf(suite.clients, asked).catch(() => undefined))?.lines, soon)
      .toEqual([`accepted 2/${offset} from `, `dead-lettered 2/${offset} attempt 0`]);
    await suite.clients.deadLetters.replayDeadLetters({ names: [suite.nameOf(offset!, 2)], dryRun: false });
    await expect.poll(async () => (await journeyOf(suite.clients, asked)).lines.length, soon).toBe(4);
    expect((await journeyOf(suite.clients, asked)).lines.slice(2)).toEqual([
      expect.stringMatching(/^replayed 2\/\d+ attempt 1 by alice in auditEntries$/),
      expect.stringMatching(/^dead-lettered 2\/\d+ attempt 1$/),
    ]);
    // From the replay's own place the way leads back.
    const { lines, stations } = await journeyOf(suite.clients, asked);
    const back = await journeyOf(suite.clients, { name, position: stations[2]!.position! });
    expect(back.lines).toEqual(lines);

    expect((await refusalOf(suite.clients.search.getEventJourney({ name }))).reason).toBe("EVENT_NOT_FOUND");
  });

  test("of an id that is too long for the index of the dead letters is found by its position", async () => {
    const id = "x".repeat(600);
    const record = {
      partition: 2,
      value: Buffer.from("1"),
      headers: ["specversion 1.0", `id ${id}`, "source /long", "type com.example.unlucky"].map((header) => {
        const [name, value] = header.split(" ") as [string, string];
        return [`ce_${name}`, Buffer.from(value)] as const;
      }),
    };
    const [offset] = await publish(suite.weir, [record]);
    const position = { topic: suite.weir.topic, partition: 2, offset: offset! };
    const asked = { name: `events/%2Flong:${id}`, position };
    await expect
      .poll(async () => (await journeyOf(suite.clients, asked).catch(() => undefined))?.lines.at(-1), soon)
      .toBe(`dead-lettered 2/${offset} attempt 0`);
    const other = await refusalOf(
      suite.clients.search.getEventJourney({ ...asked, name: "events/%2Flong:y" }),
    );
    expect(other.message).toContain("Another event stands there");
  });

  test("says what passed over its position", async () => {
    const position = await send({ source: "/c", id: "passed" });
    await untilLines("events/%2Fc:passed", 2);
    await sql(suite.weir, "delete from events.event where id = 'passed'");
    const asked = { name: "events/%2Fc:passed", position };
    const gone = await journeyOf(suite.clients, asked);
    expect(gone.lines).toEqual([`accepted ${placeOf(position)} from alice`]);
    expect(gone.unknown).toEqual([expect.stringContaining("the group has passed it") as string]);
    await sql(
      suite.weir,
      `insert into consumer.skip (group_id, topic, partition, from_offset, to_offset, kind) values
         ($1, $2, $3, $4::bigint, $4 + 1, 'RESTART'), ($1, $2, $3, $4 - 5, $4 - 1, 'NO_RECORD')`,
      [suite.group, position.topic, position.partition, position.offset],
    );
    const skipped = await journeyOf(suite.clients, asked);
    expect(skipped.lines).toEqual([
      `accepted ${placeOf(position)} from alice`,
      `skipped ${placeOf(position)} RESTART`,
    ]);
    expect(skipped.unknown).toEqual([]);
    expect(skipped.stations[1]!.station.value).toMatchObject({
      fromOffset: position.offset,
      toOffset: position.offset + 1n,
    });
  });
});

test("what stood at the position on a log before this one is not the event's", async () => {
  const position = { topic: suite.weir.topic, partition: 1, offset: 1_000_000n };
  const name = "events/%2Fc:new";
  await publish(suite.weir, [{ partition: 1, value: Buffer.from("no event") }]);
  const has = async (): Promise<number> =>
    (await sql(suite.weir, "select from consumer.checkpoint where partition = 1 and high_water > 0")).length;
  await expect.poll(has, soon).toBe(1);
  await sql(
    suite.weir,
    `insert into events.duplicate (occurred_at, "offset", partition, differs, topic, source, id)
     values (now(), $1, 1, false, $2, '/c', 'old')`,
    [position.offset, position.topic],
  );
  const ask = (): ReturnType<typeof refusalOf> =>
    refusalOf(suite.clients.search.getEventJourney({ name, position }));
  expect((await ask()).message).toContain("Another event stands there: events/%2Fc:old.");
  await suite.insertLetter({ offset: 1_000_000 });
  await sql(suite.weir, 'update consumer.dead_letter set partition = 1 where "offset" = 1000000');
  await sql(suite.weir, "delete from events.duplicate where id = 'old'");
  expect((await journeyOf(suite.clients, { name, position })).lines.at(-1)).toMatch(/^dead-lettered/);
  await sql(suite.weir, "update consumer.checkpoint set log_since = now() where partition = 1");
  expect((await ask()).reason).toBe("EVENT_NOT_FOUND");
  await sql(suite.weir, "update consumer.checkpoint set log_since = '-infinity' where partition = 1");
});

describe("an event in flight", () => {
  test("is found by its position, with the lag; without it the answer says how many it may be among", async () => {
    const before = await send({ source: "/d", id: "before", partitionkey: "d" });
    await untilLines("events/%2Fd:before", 2);
    await whileHeld(async () => {
      const [first, second] = [
        await send({ source: "/d", id: "first", partitionkey: "d" }, "x"),
        await send({ source: "/d", id: "second", partitionkey: "d" }, "y"),
      ];
      const journey = await journeyOf(suite.clients, { name: "events/%2Fd:second", position: second });
      expect(journey.lines).toEqual([`accepted ${placeOf(second)} from alice`]);
      expect(journey.inFlight).toMatchObject([
        { position: second, highWater: before.offset + 1n, logEnd: second.offset + 1n },
      ]);
      expect(second.offset - journey.inFlight[0]!.highWater!).toBe(1n);
      expect(journey.event).toMatchObject({ name: "events/%2Fd:second", dataSize: 1n, principal: "alice" });
      expect(journey.event!.cloudEvent!.data.case).toBeUndefined();
      expect(journey.unknown).toEqual([]);

      const unseen = await refusalOf(suite.clients.search.getEventJourney({ name: "events/%2Fd:second" }));
      expect(unseen).toMatchObject({
        code: Code.NotFound,
        reason: "EVENT_NOT_FOUND",
        metadata: { in_flight: "2" },
      });
      expect(unseen.message).toContain("2 records of the log are still to be consumed");
      const asked = { name: "events/%2Fd:second", position: first };
      const wrong = await refusalOf(suite.clients.search.getEventJourney(asked));
      expect(wrong).toMatchObject({ code: Code.InvalidArgument, violations: [{ field: "position" }] });
      expect(wrong.message).toContain("events/%2Fd:first");
    });
    expect(await untilLines("events/%2Fd:second", 2)).toHaveLength(2);
  });

  test("may be the replay of a dead letter", async () => {
    const name = "events/%2Fd:back";
    const position = await send({ source: "/d", id: "back", type: "com.example.unlucky" });
    await untilLines(name, 2);
    await whileHeld(async () => {
      const letter = suite.nameOf(position.offset, position.partition);
      await suite.clients.deadLetters.replayDeadLetters({ names: [letter], dryRun: false });
      const { lines, inFlight, stations } = await journeyOf(suite.clients, { name });
      expect(lines).toHaveLength(3);
      expect(inFlight).toMatchObject([{ position: { offset: stations[2]!.position!.offset } }]);
      // From the replay's own place it is the same journey.
      const again = await journeyOf(suite.clients, { name, position: stations[2]!.position! });
      expect([again.lines, again.inFlight.length]).toEqual([lines, 1]);
    });
  });
});
