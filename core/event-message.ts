import { type AttributeRead, type Decoded, decodedFrom } from "./attributes.ts";
import { encodeBase64 } from "./base64.ts";
import { type EventData } from "./event.ts";
import { type Faults } from "./faults.ts";
import { isTimestampInRange, timestampFrom } from "./timestamp.ts";
import { isTypeUrl, isUri, isUriReference } from "./uri.ts";
import { encodeUtf8 } from "./utf8.ts";

/** The oneof of an io.cloudevents.v1.CloudEvent.CloudEventAttributeValue, in the form that generated code has it. */
export type AttributeValue =
  | { readonly case: "ceBoolean"; readonly value: boolean }
  | { readonly case: "ceInteger"; readonly value: number }
  | { readonly case: "ceString" | "ceUri" | "ceUriRef"; readonly value: string }
  | { readonly case: "ceBytes"; readonly value: Uint8Array }
  | { readonly case: "ceTimestamp"; readonly value: MessageTimestamp }
  | { readonly case: undefined };

/** A google.protobuf.Timestamp. */
export interface MessageTimestamp {
  readonly seconds: bigint | number;
  readonly nanos: number;
}

/** The oneof of an event's data, in the form that generated code has it. */
export type MessageData =
  | { readonly case: "binaryData"; readonly value: Uint8Array }
  | { readonly case: "textData"; readonly value: string }
  | { readonly case: "protoData"; readonly value: { readonly typeUrl: string; readonly value: Uint8Array } }
  | { readonly case: undefined };

/** An io.cloudevents.v1.CloudEvent. undefined stands for what could not be read, which is noted. */
export interface EventMessage {
  readonly id: string | undefined;
  readonly source: string | undefined;
  readonly specVersion: string | undefined;
  readonly type: string | undefined;
  readonly attributes: Iterable<readonly [name: string, value: AttributeValue | undefined]>;
  readonly data: MessageData | undefined;
}

/**
 * The event of a message (CloudEvents protobuf format), or every fault of it and of `faults`. An attribute's value of any
 * type becomes its canonical string. The fields of the faults are names of attributes, "data", and `attributes.NAME` where
 * an attribute with a field of its own is in the map as well.
 */
export function decodeEventMessage(message: EventMessage, faults: Faults): Decoded {
  const attributes: AttributeRead[] = [
    ["id", message.id],
    ["source", message.source],
    ["specversion", message.specVersion],
    ["type", message.type],
  ];
  for (const [name, value] of message.attributes) {
    if (name === "id" || name === "source" || name === "specversion" || name === "type") {
      const description = `${name} has a field of its own: it may not be in attributes.`;
      faults.add(`attributes.${name}`, "INVALID_ATTRIBUTES", description);
    } else attributes.push([name, value && canonicalText(name, value, faults)]);
  }
  return decodedFrom({ attributes, data: message.data && dataOf(message.data, faults) }, faults);
}

/** The CloudEvents string of a value (CloudEvents 1.0, type system); undefined where it has none, which is noted. */
function canonicalText(name: string, value: AttributeValue, faults: Faults): string | undefined {
  switch (value.case) {
    case "ceBoolean":
    case "ceInteger":
      return String(value.value);
    case "ceString":
      return value.value;
    case "ceBytes":
      return encodeBase64(value.value);
    case "ceUri":
      if (isUri(value.value)) return value.value;
      return fail(name, "The value is sent as ce_uri and is no URI with a scheme.", faults);
    case "ceUriRef":
      if (isUriReference(value.value)) return value.value;
      return fail(name, "The value is sent as ce_uri_ref and is no URI-reference.", faults);
    case "ceTimestamp": {
      const [seconds, nanos] = [Number(value.value.seconds), value.value.nanos];
      if (isTimestampInRange(seconds, nanos)) return timestampFrom(seconds, nanos).text;
      const range = "the years 0001 to 9999, or its nanos outside 0 to 999,999,999";
      return fail(name, `The timestamp is outside ${range}.`, faults);
    }
    case undefined:
      return fail(name, "The attribute has no value: set one of ce_boolean to ce_timestamp.", faults);
  }
}

function fail(name: string, description: string, faults: Faults): undefined {
  faults.add(name, "INVALID_ATTRIBUTES", description);
}

function dataOf(data: MessageData, faults: Faults): EventData | undefined {
  switch (data.case) {
    case "binaryData":
      return { bytes: data.value, protoType: undefined };
    case "textData":
      return { bytes: encodeUtf8(data.value), protoType: undefined };
    case "protoData": {
      const { typeUrl, value } = data.value;
      if (!isTypeUrl(typeUrl)) {
        const example = 'such as "type.googleapis.com/acme.Order"';
        faults.add("data", "INVALID_DATA", `The type_url of proto_data must name its message, ${example}.`);
      }
      return { bytes: value, protoType: typeUrl };
    }
    case undefined:
      return undefined;
  }
}
