import { expect, test } from "vitest";

import { formatDeadLetterName, parseDeadLetterName } from "./dead-letter-name.ts";

test.each([
  [
    { group: "weir.persist.v1", topic: "weir.events.v1", partition: 3, offset: 42n },
    "deadLetters/weir.persist.v1:weir.events.v1:3:42",
  ],
  [
    { group: "", topic: "weir.events.v1.dlq", partition: 0, offset: 0n },
    "deadLetters/:weir.events.v1.dlq:0:0",
  ],
  [
    { group: "a:b/c", topic: "ü", partition: 2 ** 31 - 1, offset: 2n ** 63n - 1n },
    "deadLetters/a%3Ab%2Fc:%C3%BC:2147483647:9223372036854775807",
  ],
])("names place %# and reads the name back", (identity, name) => {
  expect(formatDeadLetterName(identity)).toBe(name);
  expect(parseDeadLetterName(name)).toEqual({ ok: true, value: identity });
});

test.each([
  "",
  "events/a:b",
  "deadLetters/",
  "deadLetters/g:t:1",
  "deadLetters/g:t:1:2:3",
  "deadLetters/g::1:2",
  "deadLetters/g:t:01:2",
  "deadLetters/g:t:-1:2",
  "deadLetters/g:t:2147483648:2",
  "deadLetters/g:t:1:9223372036854775808",
  "deadLetters/g:t:1:x",
  "deadLetters/g h:t:1:2",
  "deadLetters/g%0:t:1:2",
  "deadLetters/g%00:t:1:2",
])("refuses %j", (name) => {
  expect(parseDeadLetterName(name)).toMatchObject({
    ok: false,
    faults: [{ field: "name", reason: "INVALID_NAME" }],
  });
});
