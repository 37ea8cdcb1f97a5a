import { expect, test } from "vitest";

import { encodeArray } from "./binary-format.ts";

// The expected bytes are those of PostgreSQL itself: select encode(array_send(…), 'hex').
test.each([
  [
    "text[] with null",
    encodeArray("text", ["é", undefined, ""]),
    "00000001 00000001 00000019 00000003 00000001 00000002 c3a9 ffffffff 00000000",
  ],
  [
    "bytea[]",
    encodeArray("bytea", [new Uint8Array([0, 255])]),
    "00000001 00000000 00000011 00000001 00000001 00000002 00ff",
  ],
  ["int2[]", encodeArray("int2", [-2]), "00000001 00000000 00000015 00000001 00000001 00000002 fffe"],
  ["int4[]", encodeArray("int4", [1]), "00000001 00000000 00000017 00000001 00000001 00000004 00000001"],
  [
    "int8[]",
    encodeArray("int8", [2n ** 40n]),
    "00000001 00000000 00000014 00000001 00000001 00000008 0000010000000000",
  ],
  [
    "timestamptz[] of 2000-01-01 and a microsecond",
    encodeArray("timestamptz", [946_684_800_000_001n]),
    "00000001 00000000 000004a0 00000001 00000001 00000008 0000000000000001",
  ],
])("%s", (_, actual, expected) => {
  expect(actual.toString("hex")).toBe(expected.replaceAll(" ", ""));
});

test("a time beyond 64 bits that is to be stored is never taken for infinity, which PostgreSQL would store", () => {
  const [high, low] = [2n ** 70n, -(2n ** 70n)].map((micros) => encodeArray("timestamptz", [micros]));
  expect(high!.subarray(-8).toString("hex")).toBe("7ffffffffffffffe");
  expect(low!.subarray(-8).toString("hex")).toBe("8000000000000001");
});
