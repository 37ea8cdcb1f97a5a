import { Code, ConnectError } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { weirErrorOf } from "./error.ts";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.ts";

test("reads every detail of a refusal", () => {
  const violation = {
    field: "event.id",
    description: "is empty: give the event an id",
    reason: "INVALID_ATTRIBUTES",
  };
  const refusal = new ConnectError("The event is not one.", Code.InvalidArgument, undefined, [
    {
      desc: ErrorInfoSchema,
      value: { reason: "INVALID_ATTRIBUTES", domain: "weir", metadata: { limit: "512" } },
    },
    {
      desc: BadRequestSchema,
      value: { fieldViolations: [violation, { ...violation, field: "event.type" }] },
    },
    { desc: RetryInfoSchema, value: { retryDelay: { seconds: 2n, nanos: 1 } } },
  ]);
  expect(weirErrorOf(refusal)).toEqual({
    code: Code.InvalidArgument,
    message: "The event is not one.",
    reason: "INVALID_ATTRIBUTES",
    metadata: { limit: "512" },
    violations: [violation, { ...violation, field: "event.type" }],
    retryAfterMs: 2001,
  });
});

test("gives no reason to an error that is not Weir's", () => {
  const proxied = new ConnectError("bad gateway", Code.Unavailable, undefined, [
    { desc: ErrorInfoSchema, value: { reason: "UPSTREAM", domain: "proxy.example" } },
  ]);
  expect(weirErrorOf(proxied)).toEqual({
    code: Code.Unavailable,
    message: "bad gateway",
    reason: undefined,
    metadata: {},
    violations: [],
    retryAfterMs: undefined,
  });
});

test("is undefined for what no call rejected with", () => {
  expect(weirErrorOf(new TypeError("time is an invalid Date"))).toBeUndefined();
  expect(weirErrorOf(undefined)).toBeUndefined();
});
