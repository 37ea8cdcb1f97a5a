import { fromBinary } from "@bufbuild/protobuf";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { Code } from "@connectrpc/connect";
import { type Decoded } from "#core/attributes.ts";
import { refuse } from "#core/faults.ts";
import { decodeHttpBinary, httpContentMode } from "#core/http-binary.ts";
import { readJsonArray } from "#core/json.ts";
import { decodeStructuredJson } from "#core/structured-json.ts";
import { decodeUtf8, encodeUtf8 } from "#core/utf8.ts";
import { CloudEventSchema } from "#gen/io/cloudevents/v1/cloudevents_pb.ts";
import { failureOf, toConnectError } from "./errors.ts";
import { type HttpCall } from "./http-routes.ts";
import { hasTooManyParts, jsonParts, MAX_PARTS } from "./message-bound.ts";
import { fromCloudEventMessage, requestPath } from "./wire.ts";

/** An event of a request, and how its sender calls its parts. */
export interface Arrival {
  readonly decoded: Decoded;
  /** Gives a fault's field its path: a header, a member of the JSON object, a field of the message. */
  readonly path: (field: string) => string;
}

/**
 * The event of a request, in whichever content mode it came.
 *
 * @throws ConnectError (UNSUPPORTED_MEDIA_TYPE, UNKNOWN_MODE) where the request is no event that is taken here.
 */
export function decodeEvent(call: HttpCall): Arrival {
  const contentMode = httpContentMode(call.headers);
  switch (contentMode.mode) {
    case "binary":
      return { decoded: decodeHttpBinary(call.headers, call.body), path: headerPath };
    case "structured":
      if (contentMode.format === "json") return jsonArrival(call.body);
      if (contentMode.format === "protobuf") return protobufArrival(call.body);
      throw unsupported(`Events in the format "${contentMode.format.slice(0, 32)}" are not taken here.`, ONE);
    case "batch":
      throw unsupported("A batch is not taken here, but at /v1/events:batchCreate.", ONE);
    case "unknown":
      throw toConnectError({
        code: Code.InvalidArgument,
        reason: "UNKNOWN_MODE",
        message: `The request is no CloudEvent. ${ONE}`,
      });
  }
}

/**
 * The events of a batch, each for itself, so that one that cannot be read keeps no other from being taken.
 *
 * @param demandCount is told how many events there are before any is decoded; it throws where they are too many.
 * @throws ConnectError (UNSUPPORTED_MEDIA_TYPE) where the request is no batch, (MALFORMED) where it cannot be told apart.
 */
export function decodeBatch(call: HttpCall, demandCount: (events: number) => void): readonly Arrival[] {
  const contentMode = httpContentMode(call.headers);
  if (contentMode.mode !== "batch") throw unsupported("The request is no batch of CloudEvents.", MANY);
  if (contentMode.format === "json") {
    // Before it is read: 8 MiB can be four million elements.
    if (call.body.length > SMALL) demandCount(jsonParts(call.body, 1));
    const text = decodeUtf8(call.body);
    const array = text === undefined ? undefined : readJsonArray(text);
    if (array === undefined) throw malformed("The batch is not UTF-8, which JSON must be (RFC 8259 § 8.1).");
    if (!array.ok) throw malformed(`The batch ${array.description}.`);
    demandCount(array.value.length);
    return array.value.map(({ start, end }) => jsonArrival(encodeUtf8((text ?? "").slice(start, end))));
  }
  if (contentMode.format === "protobuf") {
    let count = 0;
    readProtobufBatch(call.body, () => (count += 1));
    demandCount(count);
    const arrivals: Arrival[] = [];
    readProtobufBatch(call.body, (start, end) => {
      arrivals.push(protobufArrival(call.body.subarray(start, end)));
    });
    return arrivals;
  }
  throw unsupported(`Batches in the format "${contentMode.format.slice(0, 32)}" are not taken here.`, MANY);
}

/** What is no larger may be read before it is counted. */
const SMALL = 65_536;
/** Far above the attributes that an event may have. */
const MAX_MEMBERS = 10_000;

const ONE =
  "Send the event as application/cloudevents+json or application/cloudevents+protobuf, or its attributes as ce- headers (ce-specversion: 1.0, …) with its data as the body.";
const MANY =
  "Send the events as application/cloudevents-batch+json or application/cloudevents-batch+protobuf, or each by itself to /v1/events.";

function unsupported(problem: string, taken: string): Error {
  const message = `${problem} ${taken}`;
  return toConnectError({ code: Code.InvalidArgument, reason: "UNSUPPORTED_MEDIA_TYPE", message });
}

function malformed(description: string): Error {
  return toConnectError(failureOf([{ field: "", reason: "MALFORMED", description }]));
}

/** JSON members are known to their sender by the names of the attributes. */
function jsonArrival(body: Uint8Array): Arrival {
  return { decoded: decodeJson(body), path: (field) => field };
}

function decodeJson(body: Uint8Array): Decoded {
  if (body.length > SMALL && jsonParts(body, 1) > MAX_MEMBERS) {
    return refuse("", "TOO_LARGE", `The event has more than ${String(MAX_MEMBERS)} members.`);
  }
  return decodeStructuredJson(body);
}

function protobufArrival(body: Uint8Array): Arrival {
  return { decoded: decodeProtobuf(body), path: messagePath };
}

function decodeProtobuf(body: Uint8Array): Decoded {
  if (hasTooManyParts(body, CloudEventSchema)) {
    return refuse("", "TOO_LARGE", `The event has more than ${String(MAX_PARTS)} fields.`);
  }
  try {
    return fromCloudEventMessage(fromBinary(CloudEventSchema, body, { readUnknownFields: false }));
  } catch {
    return refuse("", "MALFORMED", "The event is no io.cloudevents.v1.CloudEvent in protobuf.");
  }
}

/** Says where each event of an io.cloudevents.v1.CloudEventBatch begins and ends. */
function readProtobufBatch(body: Uint8Array, found: (start: number, end: number) => void): void {
  const reader = new BinaryReader(body);
  try {
    while (reader.pos < reader.len) {
      const [field, type] = reader.tag();
      if (field !== 1 || type !== WireType.LengthDelimited) {
        reader.skip(type, field);
        continue;
      }
      const end = reader.uint32() + reader.pos;
      if (end > reader.len) throw new RangeError("The last event ends too early");
      found(reader.pos, end);
      reader.pos = end;
    }
  } catch {
    throw malformed("The batch is no io.cloudevents.v1.CloudEventBatch in protobuf.");
  }
}

/** The path of a field where the body is the message itself. */
function messagePath(field: string): string {
  return field === "" ? "" : requestPath(field).replace(/^event\./, "");
}

/** The header that carries an attribute in binary mode (HTTP binding § 3.1). */
function headerPath(field: string): string {
  if (field === "" || field === "data") return field;
  return field === "datacontenttype" ? "content-type" : `ce-${field}`;
}
