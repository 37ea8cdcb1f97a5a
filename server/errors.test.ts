import { fromJson } from "@bufbuild/protobuf";
import { base64Decode } from "@bufbuild/protobuf/wire";
import { Code, ConnectError } from "@connectrpc/connect";
import { errorFromJsonBytes } from "@connectrpc/connect/protocol-connect";
import { describe, expect, it } from "vitest";
import { type Fault } from "#core/reason.ts";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "#gen/google/rpc/error_details_pb.ts";
import { type Logger, type LogFields } from "#runtime/log.ts";
import { createErrorFunnel } from "./error-funnel.ts";
import {
  type Failure,
  failureOf,
  httpAnswerOf,
  MAX_LISTED_FAULTS,
  reasonOf,
  toConnectError,
} from "./errors.ts";

const fault = (reason: Fault["reason"], field: string): Fault => ({
  field,
  reason,
  description: `${field} is wrong.`,
});

describe("failureOf", () => {
  it("reports every fault with its path at the edge", () => {
    const failure = failureOf(
      [fault("INVALID_ATTRIBUTES", "id"), fault("TIME_OUT_OF_WINDOW", "time")],
      (field) => `event.${field}`,
    );
    expect(failure).toMatchObject({ code: Code.InvalidArgument, reason: "INVALID_ATTRIBUTES" });
    expect(failure.message).toBe("event.id: id is wrong.; event.time: time is wrong.");
    const [details] = toConnectError(failure).findDetails(BadRequestSchema);
    expect(details?.fieldViolations.map(({ field, reason }) => [field, reason])).toEqual([
      ["event.id", "INVALID_ATTRIBUTES"],
      ["event.time", "TIME_OUT_OF_WINDOW"],
    ]);
  });

  it.each<[Fault["reason"][], Fault["reason"], keyof typeof Code]>([
    [["TIME_OUT_OF_WINDOW"], "TIME_OUT_OF_WINDOW", "OutOfRange"],
    [["TIME_OUT_OF_WINDOW", "TOO_LARGE"], "TOO_LARGE", "InvalidArgument"],
    [["TOO_LARGE", "MALFORMED"], "MALFORMED", "InvalidArgument"],
  ])("of %j is %s", (reasons, reason, code) => {
    const [first, ...more] = reasons.map((each) => fault(each, "x"));
    expect(failureOf([first!, ...more])).toMatchObject({ reason, code: Code[code] });
  });

  it("takes the metadata of the gravest fault", () => {
    const metadata = { limit: "10", actual: "11", unit: "bytes" };
    const failure = failureOf([fault("TIME_OUT_OF_WINDOW", "time"), { ...fault("TOO_LARGE", ""), metadata }]);
    expect(failure.metadata).toEqual(metadata);
  });

  it("is bounded, and says how many faults there were", () => {
    const faults = Array.from({ length: 100 }, (_, i) => fault("INVALID_ATTRIBUTES", `a${i}`));
    const failure = failureOf(faults as [Fault, ...Fault[]]);
    expect(failure.message).toMatch(/a2 is wrong\.; and 97 more$/);
    const error = toConnectError(failure);
    expect(error.findDetails(BadRequestSchema)[0]?.fieldViolations).toHaveLength(MAX_LISTED_FAULTS);
    expect(error.findDetails(ErrorInfoSchema)[0]?.metadata).toEqual({ faults: "100" });
  });
});

describe("an HTTP answer", () => {
  const failure: Failure = {
    code: Code.Unavailable,
    reason: "PRODUCER_UNAVAILABLE",
    message: "Nothing was published.",
    metadata: { cause: "QUEUE_FULL" },
    retryAfterMs: 1_250,
  };

  it("is what Connect writes, with Retry-After", () => {
    const answer = httpAnswerOf(toConnectError(failure));
    expect(answer.status).toBe(503);
    expect(answer.headers).toEqual({ "content-type": "application/json", "retry-after": "2" });
    const json = JSON.parse(new TextDecoder().decode(answer.body)) as {
      details: { type: string; value: string }[];
    };
    expect(json).toMatchObject({ code: "unavailable", message: "Nothing was published." });
    expect(json.details.map(({ type }) => type)).toEqual(["google.rpc.ErrorInfo", "google.rpc.RetryInfo"]);
    expect(base64Decode(json.details[0]!.value).length).toBeGreaterThan(0);
    const read = errorFromJsonBytes(answer.body, undefined, new ConnectError("unreadable"));
    expect(read.code).toBe(Code.Unavailable);
    expect(read.findDetails(ErrorInfoSchema)[0]).toMatchObject({
      reason: "PRODUCER_UNAVAILABLE",
      domain: "weir",
      metadata: { cause: "QUEUE_FULL" },
    });
    expect(read.findDetails(RetryInfoSchema)[0]).toMatchObject(
      fromJson(RetryInfoSchema, { retryDelay: "1.250s" }),
    );
  });

  it.each<[Failure["reason"], keyof typeof Code, number]>([
    ["INVALID_ATTRIBUTES", "InvalidArgument", 400],
    ["TIME_OUT_OF_WINDOW", "OutOfRange", 400],
    ["TOKEN_INVALID", "Unauthenticated", 401],
    ["SCOPE_MISSING", "PermissionDenied", 403],
    ["EVENT_NOT_FOUND", "NotFound", 404],
    ["METHOD_NOT_ALLOWED", "Unimplemented", 405],
    ["TOO_LARGE", "InvalidArgument", 413],
    ["MESSAGE_TOO_LARGE", "ResourceExhausted", 413],
    ["UNSUPPORTED_MEDIA_TYPE", "InvalidArgument", 415],
    ["UNKNOWN_MODE", "InvalidArgument", 415],
    ["INTERNAL", "Internal", 500],
    ["PUBLISH_OUTCOME_UNKNOWN", "Unavailable", 503],
    ["DEADLINE_EXCEEDED", "DeadlineExceeded", 504],
  ])("of %s (%s) has the status %d", (reason, code, status) => {
    expect(httpAnswerOf(toConnectError({ code: Code[code], reason, message: "" })).status).toBe(status);
  });

  it.each<[Failure["reason"], keyof typeof Code, string | undefined]>([
    ["TOKEN_MISSING", "Unauthenticated", 'Bearer realm="weir"'],
    ["TOKEN_INVALID", "Unauthenticated", 'Bearer realm="weir", error="invalid_token"'],
    ["TOKEN_EXPIRED", "Unauthenticated", 'Bearer realm="weir", error="invalid_token"'],
    [
      "SCOPE_MISSING",
      "PermissionDenied",
      'Bearer realm="weir", error="insufficient_scope", scope="events.read"',
    ],
    ["INVALID_NAME", "InvalidArgument", undefined],
  ])("of %s challenges as RFC 6750 has it", (reason, code, challenge) => {
    const error = toConnectError({
      code: Code[code],
      reason,
      message: "",
      metadata: { scope: "events.read" },
    });
    expect(httpAnswerOf(error).headers["www-authenticate"]).toBe(challenge);
  });
});

describe("the funnel", () => {
  const lines: { message: string; fields: LogFields | undefined }[] = [];
  const log = {
    error: (message: string, fields?: LogFields) => void lines.push({ message, fields }),
  } as Logger;
  const funnel = createErrorFunnel(log, 1_024);

  it("lets an expected error pass", () => {
    const error = toConnectError({ code: Code.NotFound, reason: "EVENT_NOT_FOUND", message: "" });
    expect(funnel(error, "m")).toBe(error);
    expect(lines).toEqual([]);
  });

  it.each<[keyof typeof Code, Failure["reason"], object]>([
    ["InvalidArgument", "INVALID_REQUEST", {}],
    ["Unimplemented", "UNIMPLEMENTED", {}],
    ["DeadlineExceeded", "DEADLINE_EXCEEDED", {}],
    ["Canceled", "CANCELLED", {}],
  ])("gives the RPC library's %s its reason, in place", (code, reason, metadata) => {
    const error = new ConnectError("of the library", Code[code]);
    expect(funnel(error, "m")).toBe(error);
    expect(error.findDetails(ErrorInfoSchema)[0]).toMatchObject({ reason, domain: "weir", metadata });
    expect(error.rawMessage).toBe("of the library");
    expect(lines).toEqual([]);
  });

  it.each([
    ["message size is larger than configured readMaxBytes 1024", undefined, "is larger than the 1024 bytes"],
    [
      "message size 2000 is larger than configured readMaxBytes 1024",
      "2000",
      "has 2000 bytes, more than the 1024",
    ],
  ])("says what is too large in words of its own: %s", (said, actual, words) => {
    const error = new ConnectError(said, Code.ResourceExhausted);
    expect(funnel(error, "m")).toBe(error);
    const metadata = { limit: "1024", unit: "bytes", ...(actual !== undefined && { actual }) };
    expect(error.findDetails(ErrorInfoSchema)[0]).toMatchObject({ reason: "MESSAGE_TOO_LARGE", metadata });
    expect(error.findDetails(ErrorInfoSchema)[0]?.metadata).toEqual(metadata);
    expect(error.rawMessage).toContain(words);
    expect(error.message).toBe(`[resource_exhausted] ${error.rawMessage}`);
  });

  it.each([
    ["an Error", new Error("password of the database")],
    ["a ConnectError that says nothing", new ConnectError("password of the database", Code.Unknown)],
    [
      "a ConnectError of the library's own making",
      new ConnectError("password of the database", Code.Internal),
    ],
    ["a text", "password of the database"],
    ["undefined", undefined],
  ])("hides %s behind a correlation id, and logs it once", (_, thrown) => {
    lines.length = 0;
    const error = funnel(thrown, "weir.v1.X/Y");
    expect(error.code).toBe(Code.Internal);
    expect(reasonOf(error)).toBe("INTERNAL");
    const correlationId = error.findDetails(ErrorInfoSchema)[0]?.metadata["correlationId"];
    expect(correlationId).toMatch(/^[\da-f-]{36}$/);
    expect(error.rawMessage).toContain(correlationId);
    expect(new TextDecoder().decode(httpAnswerOf(error).body)).not.toContain("password");
    expect(error.message).not.toContain("password");
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatchObject({ fields: { correlationId, method: "weir.v1.X/Y" } });
    expect(funnel(error, "m")).toBe(error);
    expect(lines).toHaveLength(1);
  });
});
