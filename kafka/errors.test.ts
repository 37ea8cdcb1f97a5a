import { expect, test } from "vitest";
import { errorText } from "./errors.ts";

function refused(port: number): Error {
  const cause = new Error(`connect ECONNREFUSED 127.0.0.1:${port}`);
  return new Error(`Connection to 127.0.0.1:${port} failed.`, { cause });
}

function tried(...ports: readonly number[]): Error {
  return new AggregateError(ports.map(refused), "Cannot connect to any broker.");
}

test("the text of a fault says each cause once, and the same whatever order brokers were tried in", () => {
  const text = errorText(new AggregateError([tried(1, 2), tried(2, 1)], "metadata failed 2 times."));
  expect(text).toBe(
    "metadata failed 2 times: Cannot connect to any broker: connect ECONNREFUSED 127.0.0.1:1: connect ECONNREFUSED 127.0.0.1:2",
  );
  expect(errorText(new AggregateError([tried(2, 1), tried(1, 2)], "metadata failed 2 times."))).toBe(text);
  expect(errorText("no error")).toBe("no error");
});
