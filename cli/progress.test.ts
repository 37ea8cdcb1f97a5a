import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { bar, count, rate, showProgress } from "./progress.ts";

/** A stream that is a terminal of a width, or none. */
function stream(columns: number | undefined): NodeJS.WriteStream {
  return Object.assign(new PassThrough({ encoding: "utf8" }), {
    isTTY: columns !== undefined,
    columns,
  }) as unknown as NodeJS.WriteStream;
}

const written = (terminal: NodeJS.WriteStream): unknown => (terminal as unknown as PassThrough).read();

test("writes one line over and over on a terminal, no longer than it is wide, and takes it away at the end", () => {
  const terminal = stream(11);
  {
    using _ = showProgress(terminal, () => "0123456789012345");
    expect(written(terminal)).toBe("\r\u001b[K0123456789");
  }
  expect(written(terminal)).toBe("\r\u001b[K");
});

test("writes nothing where there is no terminal", () => {
  const file = stream(undefined);
  showProgress(file, () => "line")[Symbol.dispose]();
  expect(written(file)).toBeNull();
});

test("says how far it is, how many, how fast", () => {
  expect(bar(1, 4)).toBe("[######------------------]  25 %");
  expect(bar(0, 0)).toBe("[########################] 100 %");
  expect(bar(5, 4)).toBe("[########################] 100 %");
  expect([count(1_234_567), rate(3_000, 1_500), rate(1, 0)]).toEqual(["1,234,567", "2,000/s", "1,000/s"]);
});
