import {
  type AttributeRead,
  type Decoded,
  decodedFrom,
  isCoreAttribute,
  MAX_ATTRIBUTES,
  tooManyAttributes,
} from "./attributes.ts";
import { decodeBase64, encodeBase64 } from "./base64.ts";
import { type CloudEvent, type EventData } from "./event.ts";
import { createFaults, type Faults, refuse } from "./faults.ts";
import { isJsonValue, type JsonMember, readJsonObject, readJsonString } from "./json.ts";
import { isJsonMediaType } from "./media-type.ts";
import { decodeUtf8, encodeUtf8 } from "./utf8.ts";

/** The media type of an event in the JSON format. */
export const STRUCTURED_JSON = "application/cloudevents+json";

/** A document that holds events in JSON: one, or a batch. */
export interface JsonDocument {
  readonly text: string;
  /** The UTF-8 of the text. */
  readonly bytes: Uint8Array;
  /** That every string in it, a value or a name, is known to be of U+0020 to U+007E. */
  readonly isPrintable: boolean;
}

/** The document of these bytes, read once for all its events; undefined where they are not UTF-8. */
export function jsonDocument(bytes: Uint8Array): JsonDocument | undefined {
  const text = decodeUtf8(bytes);
  if (text === undefined) return undefined;
  // As many characters as bytes: ASCII. JSON lets no control character but DEL into a string, unless it is escaped.
  const isPrintable = text.length === bytes.length && !text.includes("\\") && !text.includes("\x7f");
  return { text, bytes, isPrintable };
}

/**
 * Decodes an event in the JSON format (CloudEvents 1.0.2). Never throws, whatever the bytes, and takes linear time.
 *
 * Data that `datacontenttype` declares to be JSON are the raw slice of `data`, byte for byte; where it declares another
 * type, `data` must be a string, and the payload is its text in UTF-8; `data_base64` is decoded. With `data` and no
 * `datacontenttype`, the event's is "application/json", as § 3.1.2 says.
 * Boolean and 32-bit integer extensions become their text; a `null` attribute is absent (§ 2.2); a name that comes twice
 * is refused.
 */
export function decodeStructuredJson(bytes: Uint8Array): Decoded {
  const document = jsonDocument(bytes);
  if (document === undefined) {
    return refuse("", "MALFORMED", "The event is not UTF-8, which JSON must be (RFC 8259 § 8.1).");
  }
  const object = readJsonObject(document.text, MAX_ATTRIBUTES);
  if (!object.ok) return refuse("", "MALFORMED", `The event ${object.description}.`);
  return decodeMembers(object.value, document);
}

/** Decodes an event from the members of its JSON object, which stands somewhere in the document. */
export function decodeMembers(members: readonly JsonMember[], document: JsonDocument): Decoded {
  if (members.length > MAX_ATTRIBUTES) return tooManyAttributes();
  const { text, isPrintable } = document;
  const faults = createFaults();
  const attributes: AttributeRead[] = [];
  let data: JsonMember | undefined;
  let base64: JsonMember | undefined;
  // null: absent; undefined: unreadable.
  let contentType: string | null | undefined = null;
  let isTyped = false;
  for (const member of members) {
    const { name } = member;
    if (name === "data") {
      if (data !== undefined) addRepeated(name, faults);
      data ??= member;
    } else if (name === "data_base64") {
      if (base64 !== undefined) addRepeated(name, faults);
      base64 ??= member;
    } else if (name === "datacontenttype" && !isTyped) {
      isTyped = true;
      contentType = attributeValue(member, text, faults);
    } else attributes.push([name, attributeValue(member, text, faults)]);
  }
  if (data !== undefined && contentType === null) contentType = "application/json";
  attributes.push(["datacontenttype", contentType]);
  const payload = payloadOf({ data, base64, contentType }, document, faults);
  return decodedFrom({ attributes, data: payload, arePrintable: isPrintable }, faults);
}

/**
 * Encodes an event in the JSON format, so that `decodeStructuredJson` gives the same event back: the payload is `data`
 * where that keeps every byte of it and does not make it longer, else `data_base64`. A `protoType` has no place in the
 * format and is lost.
 */
export function encodeStructuredJson(event: CloudEvent): Uint8Array {
  return encodeUtf8(toStructuredJson(event));
}

/** The text of `encodeStructuredJson`. */
export function toStructuredJson(event: CloudEvent): string {
  const { id, source, type, subject, time, datacontenttype, dataschema, extensions, data } = event;
  const core = {
    specversion: "1.0",
    id,
    source,
    type,
    subject,
    time: time?.text,
    datacontenttype,
    dataschema,
  };
  let text = JSON.stringify(core).slice(0, -1);
  for (const [name, value] of extensions) text += `,"${name}":${JSON.stringify(value)}`;
  return `${text}${data === undefined ? "" : dataMember(event, data.bytes)}}`;
}

function dataMember({ datacontenttype: type }: CloudEvent, bytes: Uint8Array): string {
  // Without a datacontenttype, `data` would be read as declared JSON from then on.
  const text = type === undefined ? undefined : decodeUtf8(bytes);
  if (type !== undefined && text !== undefined) {
    if (isJsonMediaType(type)) {
      if (isJsonValue(text)) return `,"data":${text}`;
    } else {
      // Escapes make a text up to six times as long, and base64 never more than by a third. (Its quotes do not count.)
      const escaped = JSON.stringify(text);
      if (escaped.length - 2 - text.length <= bytes.length / 3) return `,"data":${escaped}`;
    }
  }
  return `,"data_base64":"${encodeBase64(bytes)}"`;
}

function addRepeated(name: string, faults: Faults): void {
  faults.add(name, "INVALID_DATA", `${name} is given more than once; give it once.`);
}

/** The attribute's canonical string; null where it is absent; undefined where it has none, which is noted. */
function attributeValue(member: JsonMember, text: string, faults: Faults): string | null | undefined {
  const { name, kind, start, end } = member;
  if (kind === "string") return readJsonString(text, start, end);
  if (kind === "null") return null;
  const raw = text.slice(start, end);
  const isCore = isCoreAttribute(name);
  if (!isCore && kind === "boolean") return raw;
  if (!isCore && kind === "number" && raw.length <= 11 && /^-?\d+$/.test(raw)) {
    const value = Number(raw);
    if (value === (value | 0)) return String(value | 0);
  }
  const allowed = isCore ? "a JSON string" : "a JSON string, a boolean or a whole number of 32 bits";
  faults.add(name, "INVALID_ATTRIBUTES", `The value must be ${allowed}, or null to leave it out.`);
  return undefined;
}

interface Payload {
  readonly data: JsonMember | undefined;
  readonly base64: JsonMember | undefined;
  readonly contentType: string | null | undefined;
}

function payloadOf(payload: Payload, { text, bytes }: JsonDocument, faults: Faults): EventData | undefined {
  const { data, base64, contentType } = payload;
  if (base64 !== undefined && base64.kind !== "null") {
    if (data !== undefined) faults.add("data", "INVALID_DATA", "Give either data or data_base64, not both.");
    const decoded =
      base64.kind === "string" ? decodeBase64(readJsonString(text, base64.start, base64.end)) : undefined;
    if (decoded !== undefined) return { bytes: decoded, protoType: undefined };
    faults.add(
      "data_base64",
      "INVALID_DATA",
      "data_base64 must be a string in base64 with padding (RFC 4648 § 4).",
    );
    return undefined;
  }
  // Of a datacontenttype that is unreadable, which is noted, nothing can be said of the data.
  if (data === undefined || typeof contentType !== "string") return undefined;
  const { kind, start, end } = data;
  if (isJsonMediaType(contentType)) {
    // With as many bytes as characters it is all ASCII, and a place in the text is the place in the bytes.
    const isAscii = bytes.length === text.length;
    const raw = isAscii ? bytes.subarray(start, end) : encodeUtf8(text.slice(start, end));
    return { bytes: raw, protoType: undefined };
  }
  const content = kind === "string" ? readJsonString(text, start, end) : undefined;
  if (content?.isWellFormed()) return { bytes: encodeUtf8(content), protoType: undefined };
  faults.add(
    "data",
    "INVALID_DATA",
    content === undefined
      ? "data must be a string, because datacontenttype declares something other than JSON; or use data_base64."
      : "data has a lone surrogate, which no text may have; use data_base64 for what is not text.",
  );
  return undefined;
}
