import { timestampMs } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { beforeAll, describe, expect, test } from "vitest";

import { ReplayAction } from "#gen/weir/admin/v1/dead_letter_pb.ts";

import { createClients, refusalOf } from "./clients.ts";
import { POISON, publish, publishPoison, sql, usePoisoned } from "./poison.ts";

const bytes = (text: string): Buffer => Buffer.from(text);

const suite = usePoisoned();

describe("dead letters", () => {
  beforeAll(() => publishPoison(suite), 90_000);

  test("are counted by partition, with what the topic holds", async () => {
    expect(await suite.clients.deadLetters.getDeadLetterDepth({})).toMatchObject({
      topic: suite.weir.topic,
      partitions: [
        { partition: 0, deadLetters: 2n, replayed: 0n },
        { partition: 1, deadLetters: 1n, replayed: 0n },
        { partition: 2, deadLetters: 0n, replayed: 0n },
      ],
      total: 3n,
      replayed: 0n,
      foreign: 0n,
      letterTopic: suite.weir.deadLetterTopic,
      letterTopicRecords: 3n,
    });
    expect(await refusalOf(suite.clients.deadLetters.getDeadLetterDepth({ topic: "other" }))).toMatchObject({
      code: Code.NotFound,
      reason: "DEAD_LETTER_NOT_FOUND",
    });
  });

  test("are listed, the last set aside first, and what can be said of each is", async () => {
    const { deadLetters, scanned, truncated, nextPageToken } =
      await suite.clients.deadLetters.listDeadLetters({});
    expect(deadLetters.map(({ name }) => name)).toEqual([
      suite.nameOf(1),
      suite.nameOf(0, 1),
      suite.nameOf(0),
    ]);
    expect({ scanned, truncated, nextPageToken }).toEqual({
      scanned: 3n,
      truncated: false,
      nextPageToken: "",
    });
    expect(deadLetters.map(({ reason }) => reason)).toEqual(["UNKNOWN_MODE", "MALFORMED", "UNKNOWN_MODE"]);
    const [, malformed, first] = deadLetters;
    expect(first).toMatchObject({
      origin: {
        case: "log",
        value: { group: suite.group, position: { topic: suite.weir.topic, partition: 0, offset: 0n } },
      },
      attempt: 0,
      replays: 0,
      valueSize: 8n,
      principal: "bob",
      letterPosition: { topic: suite.weir.deadLetterTopic, partition: 0, offset: 0n },
    });
    expect(first!.detail).toMatch(/\w/);
    expect(String(Buffer.from(first!.preview))).toBe("no event");
    expect(first!.record).toBeUndefined();
    expect(first!.replayTime).toBeUndefined();
    const { recordTime } = first!.origin.value as { recordTime?: { seconds: bigint; nanos: number } };
    expect(timestampMs(recordTime as never)).toBe(POISON[0]!.timestamp);
    expect(Buffer.from(malformed!.preview)).toEqual(POISON[1]!.value.subarray(0, 512));
  });

  test("are listed page by page and by reason, and a token is bound to its question", async () => {
    const { deadLetters: api } = suite.clients;
    const first = await api.listDeadLetters({ pageSize: 2 });
    const second = await api.listDeadLetters({ pageSize: 2, pageToken: first.nextPageToken });
    expect([...first.deadLetters, ...second.deadLetters].map(({ name }) => name)).toEqual([
      suite.nameOf(1),
      suite.nameOf(0, 1),
      suite.nameOf(0),
    ]);
    expect(second.nextPageToken).toBe("");
    const chosen = await api.listDeadLetters({ reason: "MALFORMED" });
    expect(chosen.deadLetters.map(({ name }) => name)).toEqual([suite.nameOf(0, 1)]);
    expect(chosen.scanned).toBe(1n);
    const bound = api.listDeadLetters({ reason: "MALFORMED", pageToken: first.nextPageToken });
    expect(await refusalOf(bound)).toMatchObject({ reason: "INVALID_PAGE_TOKEN" });
    const refusal = await refusalOf(
      api.listDeadLetters({ filter: "data.x > 5", reason: "BAD", pageSize: -1 }),
    );
    expect(refusal.code).toBe(Code.InvalidArgument);
    expect(refusal.violations.map(({ field, reason }) => `${field} ${reason}`).toSorted()).toEqual([
      "filter INVALID_FILTER",
      "page_size INVALID_PAGE_SIZE",
      "reason INVALID_REQUEST",
    ]);
  });

  test("are listed by what they are filtered by, and a token is bound to the filter", async () => {
    const { deadLetters: api } = suite.clients;
    const listed = async (filter: string): Promise<string[]> =>
      (await api.listDeadLetters({ filter })).deadLetters.map(({ name }) => name);
    expect(await listed("partition = 0")).toEqual([suite.nameOf(1), suite.nameOf(0)]);
    expect(await listed("time >= now-1h -offset:5 partition=1")).toEqual([suite.nameOf(0, 1)]);
    expect(await listed("time < now-1h")).toEqual([]);
    const first = await api.listDeadLetters({ filter: "time >= now-1h", pageSize: 2 });
    const second = { pageSize: 2, pageToken: first.nextPageToken };
    // Another way to write the same.
    expect((await api.listDeadLetters({ ...second, filter: "(time>=now-1h)" })).deadLetters).toHaveLength(1);
    const bound = await refusalOf(api.listDeadLetters({ ...second, filter: "time >= now-2h" }));
    expect(bound).toMatchObject({ reason: "INVALID_PAGE_TOKEN" });
    const refusal = await refusalOf(api.listDeadLetters({ filter: 'word tags:a type = "unclosed' }));
    expect(refusal.violations.map(({ description }) => description)).toEqual([
      expect.stringMatching(/^At 0: Full text/),
      expect.stringMatching(/^At 5: The field tags .* there are id, source, type, subject, time,/),
      expect.stringMatching(/^At 19: This quote is not closed/),
    ]);
  });

  test("are given whole, byte for byte", async () => {
    for (const [record, name] of [
      [POISON[0]!, suite.nameOf(0)],
      [POISON[1]!, suite.nameOf(0, 1)],
      [POISON[2]!, suite.nameOf(1)],
    ] as const) {
      const { deadLetter } = await suite.clients.deadLetters.getDeadLetter({ name });
      const { key, value, headers } = deadLetter!.record!;
      expect(key && Buffer.from(key)).toEqual(record.key && Buffer.from(record.key));
      expect(Buffer.from(value!)).toEqual(Buffer.from(record.value));
      expect(headers.map((header) => [header.name, header.value && Buffer.from(header.value)])).toEqual(
        (record.headers ?? []).map(([header, content]) => [header, content ?? undefined]),
      );
    }
  });

  test("are found by their key where their place is not known or not theirs", async () => {
    const rows = await sql(
      suite.weir,
      'update consumer.dead_letter set letter_offset = null where "offset" = 1 and partition = 0 returning 1',
    );
    expect(rows).toHaveLength(1);
    await sql(suite.weir, "update consumer.dead_letter set letter_offset = 0 where partition = 1");
    for (const name of [suite.nameOf(1), suite.nameOf(0, 1)]) {
      const { deadLetter } = await suite.clients.deadLetters.getDeadLetter({ name });
      expect(deadLetter).toMatchObject({ name });
      expect(deadLetter!.record).toBeDefined();
    }
  });

  test("that are not there, or no longer, are said not to be", async () => {
    const { deadLetters: api } = suite.clients;
    expect(await refusalOf(api.getDeadLetter({ name: "deadLetters/x" }))).toMatchObject({
      code: Code.InvalidArgument,
      reason: "INVALID_NAME",
    });
    expect(await refusalOf(api.getDeadLetter({ name: suite.nameOf(999) }))).toMatchObject({
      code: Code.NotFound,
      reason: "DEAD_LETTER_NOT_FOUND",
    });
    await suite.insertLetter({ offset: 5_000, letterOffset: 5_000 });
    const gone = await refusalOf(api.getDeadLetter({ name: suite.nameOf(5_000) }));
    expect(gone).toMatchObject({
      code: Code.NotFound,
      reason: "DEAD_LETTER_NOT_FOUND",
      metadata: { attempt: "0", replays: "0", letter: `${suite.weir.deadLetterTopic}/0/5000` },
    });
    const { plan } = await api.replayDeadLetters({ names: [suite.nameOf(5_000)] });
    expect(plan).toMatchObject([{ action: ReplayAction.UNDECODABLE }]);
    await sql(suite.weir, 'delete from consumer.dead_letter where "offset" = 5000');
  });

  test("of others, and what others wrote to the topic, are listed as foreign and given as they are", async () => {
    const [offset] = await publish(
      suite.weir,
      [{ key: bytes("k"), value: bytes("not ours") }],
      suite.weir.deadLetterTopic,
    );
    await sql(
      suite.weir,
      `insert into consumer.foreign_letter (time, "offset", partition, value_size, topic, why, key_preview, preview)
       values (now(), $1, 0, 8, $2, 'It is no JSON.', 'k', 'not ours')`,
      [offset, suite.weir.deadLetterTopic],
    );
    const name = `deadLetters/:${suite.weir.deadLetterTopic}:0:${offset}`;
    const { deadLetters } = await suite.clients.deadLetters.listDeadLetters({ pageSize: 1 });
    expect(deadLetters).toMatchObject([
      { name, reason: "", detail: "It is no JSON.", origin: { case: "foreign" } },
    ]);
    const { deadLetter } = await suite.clients.deadLetters.getDeadLetter({ name });
    expect(String(Buffer.from(deadLetter!.record!.value!))).toBe("not ours");
    const { plan } = await suite.clients.deadLetters.replayDeadLetters({ names: [name] });
    expect(plan).toMatchObject([{ name, action: ReplayAction.UNDECODABLE }]);
    expect((await suite.clients.deadLetters.getDeadLetterDepth({})).foreign).toBe(1n);
    await sql(suite.weir, "delete from consumer.foreign_letter");
  });
});

describe("who may", () => {
  test("read needs admin.read, replay admin.write", async () => {
    const reader = createClients(suite.weir.baseUrl, await suite.weir.token({ scope: "admin.read" }));
    const other = createClients(
      suite.weir.baseUrl,
      await suite.weir.token({ scope: "events.read events.write" }),
    );
    await reader.deadLetters.listDeadLetters({});
    await reader.audit.listAuditEntries({});
    expect(await refusalOf(reader.deadLetters.replayDeadLetters({}))).toMatchObject({
      code: Code.PermissionDenied,
      metadata: { scope: "admin.write" },
    });
    for (const call of [
      () => other.deadLetters.getDeadLetterDepth({}),
      () => other.deadLetters.listDeadLetters({}),
      () => other.deadLetters.getDeadLetter({ name: suite.nameOf(0) }),
      () => other.audit.listAuditEntries({}),
    ]) {
      expect(await refusalOf(call())).toMatchObject({
        code: Code.PermissionDenied,
        metadata: { scope: "admin.read" },
      });
    }
  });
});
