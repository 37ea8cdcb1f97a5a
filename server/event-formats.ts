import { Code } from "@connectrpc/connect";
import { type Decoded } from "#core/attributes.ts";
import { decodeHttp, type HttpEvents } from "#core/http.ts";
import { httpContentMode } from "#core/http-binary.ts";
import { failureOf, toConnectError } from "./errors.ts";
import { type HttpCall } from "./http/http-routes.ts";
import { requestPath } from "./wire.ts";

/** An event of a request, and how its sender calls its parts. */
export interface Arrival {
  readonly decoded: Decoded;
  /** Gives a fault's field its path: a header, a member of the JSON object, a field of the message. */
  readonly path: (field: string) => string;
}

/**
 * The event of a request, in whichever content mode it came.
 *
 * @throws ConnectError (UNSUPPORTED_MEDIA_TYPE, UNKNOWN_MODE) where the request is no event that is taken here, (MALFORMED)
 * where it has more than one content type.
 */
export function decodeEvent(call: HttpCall): Arrival {
  const isBatch = httpContentMode(call.headers).mode === "batch";
  const events = isBatch ? undefined : decodeRequest(call, 1);
  if (events === undefined || events.mode === "batch") {
    throw unsupported(
      "A batch is not taken here, but at /v1/events:batchCreate. Send one event as application/cloudevents+json or application/cloudevents+protobuf, or in binary mode.",
    );
  }
  return { decoded: events.event, path: pathOf(events) };
}

/**
 * The events of a batch, each for itself, so that one that cannot be read keeps no other from being taken.
 *
 * @throws ConnectError (UNSUPPORTED_MEDIA_TYPE) where the request is no batch, (MALFORMED) where its events cannot be told
 * apart, (TOO_LARGE) where it has more than `maxEvents`, of which none is decoded.
 */
export function decodeBatch(call: HttpCall, maxEvents: number): readonly Arrival[] {
  const isBatch = httpContentMode(call.headers).mode === "batch";
  const events = isBatch ? decodeRequest(call, maxEvents) : undefined;
  if (events?.mode !== "batch") {
    throw unsupported(
      "The request is no batch of CloudEvents. Send the events as application/cloudevents-batch+json or application/cloudevents-batch+protobuf, or each by itself to /v1/events.",
    );
  }
  const path = pathOf(events);
  return events.events.map((decoded) => ({ decoded, path }));
}

function decodeRequest(call: HttpCall, maxEvents: number): HttpEvents {
  const decoded = decodeHttp(call.headers, call.body, { maxEvents });
  if (!decoded.ok) throw toConnectError(failureOf(decoded.faults));
  return decoded.value;
}

function unsupported(message: string): Error {
  return toConnectError({ code: Code.InvalidArgument, reason: "UNSUPPORTED_MEDIA_TYPE", message });
}

function pathOf(events: HttpEvents): Arrival["path"] {
  if (events.mode === "binary") return headerPath;
  // JSON members are known to their sender by the names of the attributes.
  return events.format === "json" ? (field) => field : messagePath;
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
