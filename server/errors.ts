import {
  create,
  createRegistry,
  type DescMessage,
  type MessageInitShape,
  type Registry,
} from "@bufbuild/protobuf";
import { anyPack } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { codeToHttpStatus, errorToJsonBytes } from "@connectrpc/connect/protocol-connect";
import { type Fault, type Reason, REASONS } from "#core/reason.ts";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "#gen/google/rpc/error_details_pb.ts";
import { type Status, StatusSchema } from "#gen/google/rpc/status_pb.ts";
import { type HttpAnswer } from "./http/http-answer.ts";

interface Detail {
  readonly desc: DescMessage;
  readonly value: MessageInitShape<DescMessage>;
}

/** The messages that stand in the details of errors: what writes a google.rpc.Status as JSON must know them. */
export const DETAIL_TYPES: Registry = createRegistry(ErrorInfoSchema, BadRequestSchema, RetryInfoSchema);

/**
 * How RPC messages are read and written as JSON. A field or enum name that nobody knows is refused, unlike Connect's own
 * default: to ignore it would acknowledge an event and lose a part of it.
 */
export const JSON_OPTIONS: { readonly registry: Registry; readonly ignoreUnknownFields: false } = {
  registry: DETAIL_TYPES,
  ignoreUnknownFields: false,
};

/** ErrorInfo.domain of every error: whose list its reason is from. */
export const ERROR_DOMAIN = "weir";

/** At most this many faults are listed in one error; ErrorInfo.metadata.faults then has the whole count. */
export const MAX_LISTED_FAULTS = 64;
/**
 * And at most so many bytes of them, with so many characters of message: gRPC sends an error in trailers, the details in
 * base64 and the message percent-encoded beside them, and its clients in Java and C take 8 KiB of trailers by default.
 */
const MAX_LISTED_BYTES = 2_500;
const MAX_TOLD_LENGTH = 300;

/** An expected failure of a request: design § 4's error model as a value. Every edge turns it into its own form here. */
export interface Failure {
  readonly code: Code;
  readonly reason: Reason;
  /** A sentence for the reader: what was wrong, where, what to do. Never holds a payload or a token. */
  readonly message: string;
  /** What is wrong with the request, each with the whole path of its field. Becomes google.rpc.BadRequest. */
  readonly faults?: readonly Fault[];
  /** What varies, for programs: ErrorInfo.metadata. */
  readonly metadata?: Readonly<Record<string, string>>;
  /** Where a repeat can help: the least wait in milliseconds. Becomes google.rpc.RetryInfo and Retry-After. */
  readonly retryAfterMs?: number;
}

/** Those of faults; every other is INVALID_ARGUMENT. */
const CODES: Partial<Record<Reason, Code>> = {
  TIME_OUT_OF_WINDOW: Code.OutOfRange,
  STAGE_UNSUPPORTED: Code.Unimplemented,
};

/**
 * The failure of an input with these faults: OUT_OF_RANGE where its time alone is at fault, UNIMPLEMENTED where nothing is
 * but that it asks for a stage that is not served, else INVALID_ARGUMENT. Its reason is that of the gravest fault, in the
 * order of REASONS (an event that is malformed and too large is MALFORMED).
 *
 * @param path gives the whole path of a fault's field at this edge, such as "event.attributes.time" for "time".
 */
export function failureOf(
  faults: readonly [Fault, ...Fault[]],
  path: (field: string) => string = (field) => field,
): Failure {
  const placed = faults.map((fault) => ({ ...fault, field: path(fault.field) }));
  const gravest = placed.reduce((a, b) => (REASONS.indexOf(b.reason) < REASONS.indexOf(a.reason) ? b : a));
  const told: string[] = [];
  for (const { field, description } of placed.slice(0, 3)) {
    const text = field === "" ? description : `${field}: ${description}`;
    if (told.length > 0 && told.join("; ").length + text.length > MAX_TOLD_LENGTH) break;
    told.push(text);
  }
  if (placed.length > told.length) told.push(`and ${String(placed.length - told.length)} more`);
  return {
    code: CODES[gravest.reason] ?? Code.InvalidArgument,
    reason: gravest.reason,
    message: told.join("; "),
    faults: placed,
    ...(gravest.metadata && { metadata: gravest.metadata }),
  };
}

/** @throws ConnectError with every fault of the request, each with its whole path, where there is one. */
export function demandNone([fault, ...further]: readonly Fault[]): void {
  if (fault !== undefined) throw toConnectError(failureOf([fault, ...further]));
}

/** The failure as what RPC handlers and HTTP routes throw. */
export function toConnectError(failure: Failure, cause?: unknown): ConnectError {
  return new ConnectError(failure.message, failure.code, headersOf(failure), detailsOf(failure), cause);
}

/** The failure as a value within an answer, for where it does not end the call: the same code, message and details. */
export function toStatus(failure: Failure): Status {
  const details = detailsOf(failure).map(({ desc, value }) => anyPack(desc, create(desc, value)));
  return create(StatusSchema, { code: failure.code, message: failure.message, details });
}

/** An error made by toConnectError, as the answer of an HTTP route: the status, and the body as Connect writes it. */
export function httpAnswerOf(error: ConnectError): HttpAnswer & { readonly body: Uint8Array } {
  const headers: Record<string, string> = { "content-type": "application/json" };
  error.metadata.forEach((value, name) => {
    headers[name] = value;
  });
  return { status: httpStatusOf(error), headers, body: errorToJsonBytes(error, undefined) };
}

/** The reason that an error gives; undefined where it was not made by toConnectError. */
export function reasonOf(error: ConnectError): Reason | undefined {
  const reason = error.findDetails(ErrorInfoSchema)[0]?.reason;
  return REASONS.find((each) => each === reason);
}

/** Gives an error that the RPC library made the details that every error of Weir has, in place. */
export function addDetails(
  error: ConnectError,
  failure: Pick<Failure, "reason" | "metadata" | "retryAfterMs">,
): void {
  error.details.push(...detailsOf(failure));
}

/** The error of a body or message over the limit of what is read, in bytes. */
export function messageTooLarge(limit: number, actual?: number): ConnectError {
  return toConnectError({
    code: Code.ResourceExhausted,
    reason: "MESSAGE_TOO_LARGE",
    message: `The request's body is larger than the ${String(limit)} bytes that are read.`,
    metadata: {
      limit: String(limit),
      unit: "bytes",
      ...(actual !== undefined && { actual: String(actual) }),
    },
  });
}

/** The error of a path that does not take the request's HTTP method. */
export function methodNotAllowed(method: string, allowed: readonly string[]): ConnectError {
  const allow = allowed.join(", ");
  const error = toConnectError({
    code: Code.Unimplemented,
    reason: "METHOD_NOT_ALLOWED",
    message: `This path does not take ${method}: use ${allow}.`,
    metadata: { allow },
  });
  error.metadata.set("allow", allow);
  return error;
}

/** The details of a failure, to be sent with it. */
function detailsOf({
  reason,
  metadata,
  faults = [],
  retryAfterMs,
}: Omit<Failure, "code" | "message">): Detail[] {
  const listed = listedFaults(faults);
  const counted = faults.length > listed.length ? { faults: String(faults.length) } : undefined;
  const info = { reason, domain: ERROR_DOMAIN, metadata: { ...metadata, ...counted } };
  const details: Detail[] = [{ desc: ErrorInfoSchema, value: info }];
  if (listed.length > 0) {
    const fieldViolations = listed.map(({ field, description, reason: cause }) => ({
      field,
      description,
      reason: cause,
    }));
    details.push({ desc: BadRequestSchema, value: { fieldViolations } });
  }
  if (retryAfterMs !== undefined) {
    const wait = Math.ceil(retryAfterMs);
    const retryDelay = {
      seconds: BigInt(Math.floor(wait / 1000)),
      nanos: (wait % 1000) * 1_000_000,
    };
    details.push({ desc: RetryInfoSchema, value: { retryDelay } });
  }
  return details;
}

/** The first faults, as many as an error has room for; at least one. */
function listedFaults(faults: readonly Fault[]): readonly Fault[] {
  let bytes = 0;
  const end = faults.findIndex(({ field, description, reason }, index) => {
    bytes += Buffer.byteLength(field) + Buffer.byteLength(description) + reason.length;
    return index > 0 && bytes > MAX_LISTED_BYTES;
  });
  return faults.slice(0, Math.min(end < 0 ? faults.length : end, MAX_LISTED_FAULTS));
}

/** Headers of the answer that say what the details say, for clients that know HTTP alone. */
function headersOf(failure: Failure): Record<string, string> {
  const headers: Record<string, string> = {};
  if (failure.retryAfterMs !== undefined)
    headers["retry-after"] = String(Math.ceil(failure.retryAfterMs / 1000));
  const challenge = challengeOf(failure);
  if (challenge !== undefined) headers["www-authenticate"] = challenge;
  return headers;
}

/** RFC 6750 section 3: how a client learns that it needs a token, that its token is bad, or which scope it lacks. */
function challengeOf({ code, reason, metadata }: Failure): string | undefined {
  if (reason === "SCOPE_MISSING")
    return `Bearer realm="weir", error="insufficient_scope", scope="${metadata?.["scope"] ?? ""}"`;
  if (code !== Code.Unauthenticated) return undefined;
  return reason === "TOKEN_MISSING" ? 'Bearer realm="weir"' : 'Bearer realm="weir", error="invalid_token"';
}

/** Connect's status for the code, but for what has a status of its own in HTTP. */
function httpStatusOf(error: ConnectError): number {
  const reason = reasonOf(error);
  switch (reason) {
    case "TOO_LARGE":
    case "MESSAGE_TOO_LARGE":
      return 413;
    case "UNSUPPORTED_MEDIA_TYPE":
    case "UNKNOWN_MODE":
      return 415;
    case "METHOD_NOT_ALLOWED":
      return 405;
    default:
      return codeToHttpStatus(error.code);
  }
}
