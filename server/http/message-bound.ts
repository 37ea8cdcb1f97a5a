import { isUtf8 } from "node:buffer";
import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { base64Decode, BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { Code } from "@connectrpc/connect";
import { type Hold } from "./body-budget.ts";
import { toConnectError } from "../errors.ts";
import { type Coding, inflate, isCoding } from "./inflate.ts";

/**
 * How many parts a message may have: fields and elements in protobuf, values in JSON. Far above what a whole batch has. A
 * part may take two bytes on the wire and a kilobyte once it is parsed, so that the read limit alone bounds no memory.
 */
export const MAX_PARTS = 150_000;

/** What is smaller cannot have more: a part takes two bytes at the least. */
const SMALL = MAX_PARTS * 2;

interface Wire {
  /** Messages stand in frames: a byte of flags, four of length (gRPC, gRPC-Web, streams of Connect). */
  readonly framed: boolean;
  readonly json: boolean;
  readonly coding: Coding | undefined;
}

/**
 * Passes on the bytes of a request, once each message of it is known to have no more parts than MAX_PARTS and, in JSON, to
 * be UTF-8. Bytes that are no message, or are over the read limit as they came, pass too: the RPC library says what is
 * wrong with them. What does not inflate does not: the library might make a message of it that nobody has looked at.
 *
 * @param hold is told what a compressed message takes, also inflated: until the next of its body, or for good where the
 * body is one message.
 * @throws ConnectError INVALID_ARGUMENT: TOO_LARGE for a message with more, INVALID_REQUEST for one that is not UTF-8; what
 * `inflate` and `hold` say.
 */
export function boundMessages(
  body: AsyncIterable<Uint8Array>,
  header: Headers,
  input: DescMessage,
  readLimitBytes: number,
  hold: Hold,
): AsyncIterable<Uint8Array> {
  const wire = wireOf(header);
  if (wire === undefined) return body;
  const { framed, json, coding } = wire;
  // Nearly every request: HTTP holds it to its length.
  if (!framed && !json && coding === undefined && Number(header.get("content-length") ?? SMALL) < SMALL)
    return body;
  const demand = async (bytes: Uint8Array, isCompressed: boolean): Promise<void> => {
    const message =
      isCompressed && coding !== undefined ? await inflate(coding, bytes, readLimitBytes, hold) : bytes;
    demandMessage(message, json, input);
  };
  return framed
    ? boundFrames(body, demand, json ? 0 : SMALL, readLimitBytes, hold)
    : boundWhole(body, (bytes) => demand(bytes, coding !== undefined), readLimitBytes);
}

/**
 * The same for the message in the query of a GET (Connect protocol, "Unary-Get-Request").
 *
 * @throws ConnectError as boundMessages does.
 */
export async function boundQuery(
  url: string,
  input: DescMessage,
  readLimitBytes: number,
  hold: Hold,
): Promise<void> {
  const { search, searchParams: query } = new URL(url);
  try {
    // What URLSearchParams puts U+FFFD for, this throws on.
    decodeURIComponent(search);
  } catch {
    throw notUtf8("The query of the URL");
  }
  const text = query.get("message") ?? "";
  const coding = query.get("compression");
  let bytes: Uint8Array;
  try {
    bytes = query.get("base64") === "1" ? base64Decode(text) : Buffer.from(text);
  } catch {
    return;
  }
  const message = isCoding(coding) ? await inflate(coding, bytes, readLimitBytes, hold) : bytes;
  demandMessage(message, query.get("encoding") === "json", input);
}

/**
 * A decoder that puts U+FFFD for what is not UTF-8 makes one of two different ids, and the second event is lost as a
 * repeat of the first.
 *
 * @throws ConnectError INVALID_ARGUMENT (INVALID_REQUEST) where the JSON text is not UTF-8.
 */
export function demandUtf8(json: Uint8Array): void {
  if (!isUtf8(json)) throw notUtf8("The message");
}

function demandMessage(message: Uint8Array, isJson: boolean, input: DescMessage): void {
  if (isJson) demandUtf8(message);
  if (message.length < SMALL) return;
  if (isJson ? jsonParts(message) > MAX_PARTS : hasTooManyParts(message, input)) throw tooManyParts();
}

async function* boundWhole(
  body: AsyncIterable<Uint8Array>,
  demand: (bytes: Uint8Array) => Promise<void>,
  readLimitBytes: number,
): AsyncGenerator<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body) {
    chunks.push(chunk);
    size += chunk.length;
    if (size > readLimitBytes) yield* chunks.splice(0);
  }
  if (size <= readLimitBytes) await demand(Buffer.concat(chunks));
  yield* chunks;
}

/** Whether the messages of a request stand in frames. */
export function isFramed(header: Headers): boolean {
  return wireOf(header)?.framed === true;
}

function wireOf(header: Headers): Wire | undefined {
  const [, kind, stream, format] =
    /^application\/(?:(grpc-web|grpc)|(connect)\+)?\+?(proto|json)?(?:$|[ ;])/i.exec(
      header.get("content-type") ?? "",
    ) ?? [];
  if (kind === undefined && format === undefined) return undefined;
  const name =
    kind !== undefined
      ? "grpc-encoding"
      : stream !== undefined
        ? "connect-content-encoding"
        : "content-encoding";
  const coding = header.get(name);
  return {
    framed: kind !== undefined || stream !== undefined,
    json: format?.toLowerCase() === "json",
    coding: isCoding(coding) ? coding : undefined,
  };
}

const HEAD_BYTES = 5;

async function* boundFrames(
  body: AsyncIterable<Uint8Array>,
  demand: (bytes: Uint8Array, isCompressed: boolean) => Promise<void>,
  /** A smaller message is not looked at. */
  leastBytes: number,
  readLimitBytes: number,
  hold: Hold,
): AsyncGenerator<Uint8Array> {
  let held: Uint8Array[] = [];
  let size = 0;
  /** So many bytes must be there before anything can be said. */
  let needed = HEAD_BYTES;
  /** So many bytes are of a frame that is not looked at. */
  let passing = 0;
  for await (const chunk of body) {
    held.push(chunk);
    size += chunk.length;
    if (passing === 0 && size < needed) continue;
    let rest = Buffer.concat(held);
    needed = HEAD_BYTES;
    while (rest.length > 0) {
      if (passing > 0) {
        const part = rest.subarray(0, passing);
        yield part;
        passing -= part.length;
        rest = rest.subarray(part.length);
        continue;
      }
      if (rest.length < HEAD_BYTES) break;
      const isCompressed = (rest[0]! & 1) === 1;
      const end = HEAD_BYTES + rest.readUInt32BE(1);
      if (end > readLimitBytes + HEAD_BYTES || (!isCompressed && end < leastBytes)) {
        passing = end;
      } else if (rest.length < end) {
        needed = end;
        break;
      } else {
        await demand(rest.subarray(HEAD_BYTES, end), isCompressed);
        yield rest.subarray(0, end);
        // Who asks for more has inflated and read it.
        hold(0);
        rest = rest.subarray(end);
      }
    }
    held = rest.length > 0 ? [rest] : [];
    size = rest.length;
  }
  yield* held;
}

/**
 * How many elements and members the arrays and objects of a JSON text have, an empty one counted as if it had one. What is
 * no JSON is counted as if it were; nothing is kept, so that this comes before any reading.
 */
export function jsonParts(bytes: Uint8Array): number {
  let parts = 0;
  let isString = false;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at];
    if (byte === QUOTE) isString = !isString;
    else if (isString) at += byte === BACKSLASH ? 1 : 0;
    else if (byte === COMMA || byte === OPEN_ARRAY || byte === OPEN_OBJECT) parts += 1;
  }
  return parts;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const OPEN_ARRAY = 0x5b;
const OPEN_OBJECT = 0x7b;

/** Whether a message in protobuf has more than MAX_PARTS. What is no message counts as far as it is one. */
function hasTooManyParts(bytes: Uint8Array, desc: DescMessage): boolean {
  if (bytes.length < SMALL) return false;
  const reader = new BinaryReader(bytes);
  let left = MAX_PARTS;
  const count = (end: number, { fields }: DescMessage, depth: number): void => {
    const inner = new Map(fields.map((field) => [field.number, field]));
    while (reader.pos < end && left >= 0) {
      const [number, type] = reader.tag();
      left -= 1;
      const field = inner.get(number);
      if (type !== WireType.LengthDelimited || field === undefined || depth === 0) {
        reader.skip(type, number);
        continue;
      }
      const length = reader.uint32();
      if (isPacked(field)) left -= length;
      if (field.message === undefined || field.fieldKind === "map") reader.pos += length;
      else count(reader.pos + length, field.message, depth - 1);
    }
  };
  try {
    count(bytes.length, desc, MAX_DEPTH);
  } catch {
    return left < 0;
  }
  return left < 0;
}

const MAX_DEPTH = 32;

/** Whether each byte of the field may be an element of a list. */
function isPacked(field: DescField): boolean {
  if (field.fieldKind !== "list") return false;
  const { listKind, scalar } = field;
  return (
    listKind === "enum" ||
    (listKind === "scalar" && scalar !== ScalarType.STRING && scalar !== ScalarType.BYTES)
  );
}

function notUtf8(what: string): Error {
  return toConnectError({
    code: Code.InvalidArgument,
    reason: "INVALID_REQUEST",
    message: `${what} is not UTF-8, which JSON must be (RFC 8259 section 8.1): encode it in UTF-8. Nothing was done with it.`,
  });
}

function tooManyParts(): Error {
  return toConnectError({
    code: Code.InvalidArgument,
    reason: "TOO_LARGE",
    message: `The message has more than ${String(MAX_PARTS)} fields, elements or values. Nothing was done with it.`,
    metadata: { limit: String(MAX_PARTS), unit: "parts" },
  });
}
