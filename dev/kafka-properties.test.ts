import { expect, it } from "vitest";

import { propertiesFile } from "./kafka-properties.ts";

it("writes properties in the characters that Java reads", () => {
  expect(propertiesFile({ "log.dirs": "/home/jürgen/日 x\\y/𝄞", listeners: " A=B:C" })).toBe(
    "log.dirs=/home/j\\u00fcrgen/\\u65e5 x\\\\y/\\ud834\\udd1e\nlisteners=\\ A=B:C\n",
  );
});
