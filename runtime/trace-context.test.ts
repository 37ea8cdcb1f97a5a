import { expect, test } from "vitest";
import { traceContextOf } from "./trace-context.ts";

const PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

function read(headers: Record<string, string>): ReturnType<typeof traceContextOf> {
  return traceContextOf((name) => headers[name]);
}

test("both headers are kept where they conform", () => {
  expect(read({ traceparent: PARENT, tracestate: "rojo=00f067aa0ba902b7, congo=t61rcWkgMzE" })).toEqual({
    traceParent: PARENT,
    traceState: "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
  });
  expect(read({ traceparent: ` ${PARENT} ` })).toEqual({ traceParent: PARENT, traceState: undefined });
});

test("a later version is taken for what version 00 has of it", () => {
  expect(read({ traceparent: `cc${PARENT.slice(2)}-what-the-future-holds` }).traceParent).toBe(PARENT);
});

test.each([
  ["none", ""],
  ["not hexadecimal", "00-zbf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"],
  ["in capitals", PARENT.toUpperCase()],
  ["too short", PARENT.slice(0, -1)],
  ["too long for version 00", `${PARENT}-more`],
  ["of the forbidden version", `ff${PARENT.slice(2)}`],
  ["of no trace", `00-${"0".repeat(32)}-00f067aa0ba902b7-01`],
  ["of no span", `00-4bf92f3577b34da6a3ce929d0e0e4736-${"0".repeat(16)}-01`],
  ["two joined", `${PARENT},${PARENT}`],
])("a traceparent that is %s is left out, and the tracestate with it", (_, traceparent) => {
  expect(read({ traceparent, tracestate: "a=b" })).toEqual({ traceParent: undefined, traceState: undefined });
});

test.each([
  ["without a value", "rojo"],
  ["with a key in capitals", "ROJO=1"],
  ["longer than 512 characters", `a=${"b".repeat(511)}`],
])("a tracestate %s is left out", (_, tracestate) => {
  expect(read({ traceparent: PARENT, tracestate })).toEqual({ traceParent: PARENT, traceState: undefined });
});
