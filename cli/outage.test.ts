import { PassThrough } from "node:stream";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createOutageNotice } from "./outage.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

test("tells once of each silence of ten seconds in which something waits", () => {
  const stream = new PassThrough({ encoding: "utf8" });
  const notice = createOutageNotice(stream as unknown as NodeJS.WriteStream, "http://weir");
  const after = (ms: number, isWaiting = true): unknown => {
    vi.advanceTimersByTime(ms);
    notice.check(isWaiting);
    return stream.read();
  };
  const told = "http://weir has acknowledged nothing for 10 s: trying on.\n";
  expect(after(9_999)).toBeNull();
  expect(after(1)).toBe(told);
  expect(after(60_000)).toBeNull();
  notice.heard();
  expect(after(60_000, false)).toBeNull();
  expect(after(9_999)).toBeNull();
  expect(after(1)).toBe(told);
});
