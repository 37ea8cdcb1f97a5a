import { describe, expect, test } from "vitest";

import { type DeadLetter } from "./dead-letter.ts";
import { refuse } from "./faults.ts";
import { partitionFor } from "./partition.ts";
import {
  inReplayOrder,
  planReplay,
  type ReplayCandidate,
  type ReplayPlan,
  toReplayRecord,
} from "./replay.ts";
import { timestampFrom } from "./timestamp.ts";
import { encodeUtf8 } from "./utf8.ts";

const OWNER = { group: "g", topic: "t", partitions: 12, maxMessageBytes: 1_000 };
const CANDIDATE: ReplayCandidate = {
  group: "g",
  topic: "t",
  partition: 2,
  offset: 7n,
  attempt: 0,
  replays: 0,
  recordTime: 1_700_000_000_000_000n,
  valueSize: 1,
  preview: encodeUtf8("{"),
};
const zeros = (size: number) => ({ valueSize: size, preview: new Uint8Array(512) });
const LETTER: DeadLetter = {
  reason: "MALFORMED",
  detail: "it is broken",
  group: "g",
  position: { topic: "t", partition: 2, offset: 7n },
  timestamp: 1_700_000_000_000,
  attempt: 0,
  key: encodeUtf8("/shop"),
  headers: [],
  value: encodeUtf8("{"),
  time: timestampFrom(1_700_000_001, 0),
};
const READ = { ok: true, value: LETTER } as const;
/** What the record takes beside its value: the batch, its key, the headers of a replay, and every length. */
const RECORD_OVERHEAD =
  61 + 2 + 3 + 6 + 2 + 1 + (1 + 19 + 1 + 1) + (1 + 14 + 1 + "deadLetters/g:t:2:7".length);
const withValue = (size: number) =>
  ({ ok: true, value: { ...LETTER, value: new Uint8Array(size) } }) as const;
const at = (position: Partial<DeadLetter["position"]>, group = "g") =>
  ({ ok: true, value: { ...LETTER, group, position: { ...LETTER.position, ...position } } }) as const;

describe("a plan", () => {
  test.each<
    [
      what: string,
      candidate: Partial<ReplayCandidate>,
      letter: Parameters<typeof planReplay>[1],
      action: ReplayPlan["action"],
      attempt?: number,
    ]
  >([
    ["of a record as it first came", {}, READ, "REPLAY", 1],
    ["of a replay", { attempt: 1 }, READ, "REPLAY", 2],
    ["of a letter that was replayed before", { replays: 2 }, READ, "REPLAY", 3],
    ["of a replay that was replayed before", { attempt: 1, replays: 1 }, READ, "REPLAY", 3],
    ["of the third replay", { attempt: 3 }, READ, "BUDGET_EXHAUSTED"],
    ["of a letter that was replayed three times", { replays: 3 }, READ, "BUDGET_EXHAUSTED"],
    ["of a number that a sender made up", { attempt: 999_999 }, READ, "BUDGET_EXHAUSTED"],
    ["of a record of another size", { valueSize: 2 }, READ, "UNDECODABLE"],
    ["of a record of another time", { recordTime: 1n }, READ, "UNDECODABLE"],
    ["of a record with other bytes", { preview: encodeUtf8("[") }, READ, "UNDECODABLE"],
    ["of a letter that is gone", {}, undefined, "UNDECODABLE"],
    [
      "of a record that fits by itself and not with two headers more",
      zeros(900),
      withValue(900),
      "TOO_LARGE",
    ],
    [
      "of the largest that fits",
      zeros(1_000 - RECORD_OVERHEAD),
      withValue(1_000 - RECORD_OVERHEAD),
      "REPLAY",
      1,
    ],
    ["of one byte more", zeros(1_001 - RECORD_OVERHEAD), withValue(1_001 - RECORD_OVERHEAD), "TOO_LARGE"],
    ["of a letter that is none", {}, refuse("", "MALFORMED", "It is no JSON."), "UNDECODABLE"],
    ["of a record of the dead-letter topic itself", { group: "", topic: "dlq" }, READ, "UNDECODABLE"],
    ["of another topic's, by the index", { topic: "other" }, READ, "FOREIGN_TOPIC"],
    ["of another group's, by the index", { group: "other" }, READ, "FOREIGN_TOPIC"],
    ["of another topic's, by the letter", {}, at({ topic: "other" }), "FOREIGN_TOPIC"],
    ["of another group's, by the letter", {}, at({}, "other"), "FOREIGN_TOPIC"],
    ["of another partition's letter", {}, at({ partition: 3 }), "UNDECODABLE"],
    ["of another record's letter", {}, at({ offset: 8n }), "UNDECODABLE"],
    ["of another topic's that is gone", { topic: "other" }, undefined, "FOREIGN_TOPIC"],
    ["of an exhausted one that is gone", { attempt: 3 }, undefined, "BUDGET_EXHAUSTED"],
  ])("%s", (_, candidate, letter, action, attempt) => {
    const plan = planReplay({ ...CANDIDATE, ...candidate }, letter, OWNER);
    expect(plan).toMatchObject({ action, ...(attempt !== undefined && { attempt }) });
    expect("why" in plan).toBe(action !== "REPLAY");
  });
});

describe("the order of replaying", () => {
  const places = (...list: readonly (readonly [partition: number, offset: bigint])[]) =>
    list.map(([partition, offset]) => ({ group: "g", topic: "t", partition, offset }));

  test("is that of the candidates, and within a partition that of the log", () => {
    const given = places([0, 40n], [1, 9n], [0, 17n], [0, 18n], [1, 2n]);
    const steps = given.map((letter) => ({ letter }));
    expect(inReplayOrder(steps).map(({ letter }) => letter)).toEqual(
      places([0, 17n], [1, 2n], [0, 18n], [0, 40n], [1, 9n]),
    );
    expect(steps[0]).toMatchObject({ letter: { offset: 40n } });
  });

  test("of none is none", () => expect(inReplayOrder([])).toEqual([]));
});

describe("the record to replay", () => {
  const bytes = new Uint8Array([0xff, 0, 1]);

  test("has the original's key, value and headers, and says which replay it is, and of what", () => {
    const headers = [
      ["ce_id", encodeUtf8("1")],
      ["twice", null],
      ["weir-replay-attempt", encodeUtf8("1")],
      ["twice", bytes],
      ["weir-replay-of", encodeUtf8("deadLetters/g:t:2:1")],
    ] as const;
    expect(toReplayRecord({ ...LETTER, headers, value: bytes }, 2, OWNER)).toEqual({
      partition: partitionFor("/shop", 12),
      key: LETTER.key,
      value: bytes,
      headers: [
        ["ce_id", encodeUtf8("1")],
        ["twice", null],
        ["twice", bytes],
        ["weir-replay-attempt", encodeUtf8("2")],
        ["weir-replay-of", encodeUtf8("deadLetters/g:t:2:7")],
      ],
    });
  });

  test("without a key stays on its partition, and without a value has none", () => {
    expect(toReplayRecord({ ...LETTER, key: null, value: null }, 1, OWNER)).toMatchObject({
      partition: 2,
      key: null,
      value: null,
    });
  });
});
