import { attributesOf, type Decoded, decodedFrom, isCoreAttribute } from "./attributes.ts";
import { decodeBase64, encodeBase64 } from "./base64.ts";
import { type CloudEvent, type EventData } from "./event.ts";
import { createFaults, type Faults, refuse } from "./faults.ts";
import { isJsonValue, type JsonMember, readJsonObject, readJsonString } from "./json.ts";
import { isJsonMediaType } from "./media-type.ts";
import { decodeUtf8, encodeUtf8 } from "./utf8.ts";

/** The media type of an event in the JSON format. */
export const STRUCTURED_JSON = "application/cloudevents+json";

/**
 * Decodes an event in the JSON format (CloudEvents 1.0.2). Never throws, whatever the bytes, and takes linear time.
 *
 * Data that `datacontenttype` declares to be JSON are the raw slice of `data`, byte for byte; where it declares another type, `data` must be a string and the payload is its text in UTF-8;
 * `data_base64` is decoded. With `data` and no `datacontenttype`, the event's is "application/json", as § 3.1.2 says.
 * Boolean and 32-bit integer extensions become their text; a `null` attribute is absent (§ 2.2); a name that comes twice
 * is refused.
 */
export function decodeStructuredJson(bytes: Uint8Array): Decoded {
  const text = decodeUtf8(bytes);
  if (text === undefined) {
    return refuse("", "MALFORMED", "The event is not UTF-8, which JSON must be (RFC 8259 § 8.1).");
  }
  const object = readJsonObject(text);
  if (!object.ok) return refuse("", "MALFORMED", `The event ${object.description}.`);
  const faults = createFaults();
  const members = new Map<string, JsonMember>();
  for (const member of object.value) {
    if (members.has(member.name)) {
      const isData = member.name === "data" || member.name === "data_base64";
      const reason = isData ? "INVALID_DATA" : "INVALID_ATTRIBUTES";
      faults.add(
        member.name,
        reason,
        `${isData ? member.name : "The member"} is given more than once; give it once.`,
      );
    } else members.set(member.name, member);
  }
  const data = members.get("data");
  const base64 = members.get("data_base64");
  members.delete("data");
  members.delete("data_base64");
  const attributes: [string, string | undefined][] = [];
  for (const member of members.values()) {
    if (member.kind !== "null") attributes.push([member.name, attributeValue(member, faults)]);
  }
  let contentType = attributes.find(([name]) => name === "datacontenttype")?.[1];
  if (data !== undefined && (members.get("datacontenttype")?.kind ?? "null") === "null") {
    contentType = "application/json";
    attributes.push(["datacontenttype", contentType]);
  }
  const payload = payloadOf(data, base64, contentType, faults);
  return decodedFrom({ attributes, data: payload }, faults);
}

/**
 * Encodes an event in the JSON format, so that `decodeStructuredJson` gives the same event back: the payload is `data`
 * where that keeps every byte of it and does not make it longer, else `data_base64`. A `protoType` has no place in the
 * format and is lost.
 */
export function encodeStructuredJson(event: CloudEvent): Uint8Array {
  const members = Array.from(attributesOf(event), ([name, value]) => `"${name}":${JSON.stringify(value)}`);
  return encodeUtf8(
    `{${members.join(",")}${event.data === undefined ? "" : dataMember(event, event.data.bytes)}}`,
  );
}

function dataMember({ datacontenttype: type }: CloudEvent, bytes: Uint8Array): string {
  // Without a datacontenttype, `data` would be read as declared JSON from then on.
  const text = type === undefined ? undefined : decodeUtf8(bytes);
  if (type !== undefined && text !== undefined) {
    if (isJsonMediaType(type)) {
      if (isJsonValue(text)) return `,"data":${text}`;
    } else {
      // Escapes make a text up to six times as long, and base64 never more than by a third.
      const escaped = JSON.stringify(text);
      if (escaped.length - text.length <= bytes.length / 3) return `,"data":${escaped}`;
    }
  }
  return `,"data_base64":"${encodeBase64(bytes)}"`;
}

/** The attribute's canonical string; undefined where it has none, which is noted. */
function attributeValue(member: JsonMember, faults: Faults): string | undefined {
  if (member.kind === "string") return readJsonString(member.raw);
  const isCore = isCoreAttribute(member.name);
  const text = member.kind === "boolean" || member.kind === "number" ? member.raw : "";
  if (!isCore && member.kind === "boolean") return text;
  if (!isCore && member.kind === "number" && text.length <= 11 && /^-?\d+$/.test(text)) {
    const value = Number(text);
    if (value === (value | 0)) return String(value);
  }
  const allowed = isCore ? "a JSON string" : "a JSON string, a boolean or a whole number of 32 bits";
  faults.add(member.name, "INVALID_ATTRIBUTES", `The value must be ${allowed}, or null to leave it out.`);
  return undefined;
}

function payloadOf(
  data: JsonMember | undefined,
  base64: JsonMember | undefined,
  contentType: string | undefined,
  faults: Faults,
): EventData | undefined {
  if (base64 !== undefined && base64.kind !== "null") {
    if (data !== undefined) faults.add("data", "INVALID_DATA", "Give either data or data_base64, not both.");
    const bytes = base64.kind === "string" ? decodeBase64(readJsonString(base64.raw)) : undefined;
    if (bytes !== undefined) return { bytes, protoType: undefined };
    faults.add(
      "data_base64",
      "INVALID_DATA",
      "data_base64 must be a string in base64 with padding (RFC 4648 § 4).",
    );
    return undefined;
  }
  // Without a readable datacontenttype, which is noted, nothing can be said of the data.
  if (data === undefined || contentType === undefined) return undefined;
  if (isJsonMediaType(contentType)) return { bytes: encodeUtf8(data.raw), protoType: undefined };
  const text = data.kind === "string" ? readJsonString(data.raw) : undefined;
  if (text?.isWellFormed()) return { bytes: encodeUtf8(text), protoType: undefined };
  faults.add(
    "data",
    "INVALID_DATA",
    text === undefined
      ? "data must be a string, because datacontenttype declares something other than JSON; or use data_base64."
      : "data has a lone surrogate, which no text may have; use data_base64 for what is not text.",
  );
  return undefined;
}
