import { type CloudEvent, type EventData } from "./event.ts";
import { createFaults, type Faults, quote } from "./faults.ts";
import { isMediaType } from "./media-type.ts";
import { type Result } from "./reason.ts";
import { parseTimestamp, timestampFault } from "./timestamp.ts";
import { isUri, isUriReference } from "./uri.ts";

/** What an event is built from. */
export interface EventParts {
  /**
   * Every context attribute, `specversion` too, with its value as CloudEvents' canonical string. A name that comes twice
   * is refused.
   */
  readonly attributes: Iterable<readonly [name: string, value: string]>;
  /** The payload; undefined where the event has none. */
  readonly data: EventData | undefined;
}

interface Rule {
  readonly required: boolean;
  /** What is wrong with a value that is not empty, as the rest of a sentence. */
  readonly fault?: (value: string) => string | undefined;
}

const CORE: ReadonlyMap<string, Rule> = new Map<string, Rule>([
  ["specversion", { required: true, fault: (value) => faultUnless(value === "1.0", 'must be "1.0"') }],
  ["id", { required: true }],
  [
    "source",
    {
      required: true,
      fault: (value) => faultUnless(isUriReference(value), "must be a URI-reference (RFC 3986 § 4.1)"),
    },
  ],
  ["type", { required: true }],
  ["subject", { required: false }],
  ["time", { required: false, fault: timestampFault }],
  [
    "datacontenttype",
    {
      required: false,
      fault: (value) =>
        faultUnless(isMediaType(value), 'must be a media type (RFC 2046), such as "application/json"'),
    },
  ],
  [
    "dataschema",
    {
      required: false,
      fault: (value) => faultUnless(isUri(value), "must be a URI with a scheme (RFC 3986 § 3)"),
    },
  ],
]);

// The characters that CloudEvents forbids in a string (type system, "String"): controls, lone surrogates, noncharacters.
const FORBIDDEN = /[\p{Cc}\p{Cs}\p{Noncharacter_Code_Point}]/u;

/**
 * Builds an event, or says everything that is wrong with its attributes, each fault with the attribute's name as its
 * field. All decoders end here, so the rules of CloudEvents 1.0 for names, values and required attributes stand in one
 * place. Limits and the time window are not checked here: see admission.ts.
 */
export function buildEvent(parts: EventParts): Result<CloudEvent> {
  const faults = createFaults();
  return faults.result(eventFrom(parts, faults));
}

/** `EventParts` of which some may be missing: a value of undefined could not be read, which is noted already. */
interface PartsRead {
  readonly attributes: Iterable<readonly [name: string, value: string | undefined]>;
  readonly data: EventData | undefined;
}

/**
 * An event, or its faults and beside them a draft: what was read in spite of them, "" for a required attribute that was
 * not. A draft is for further checks (admission), so that a sender learns of everything at once; it is never an event.
 */
export type Decoded = Result<CloudEvent> & { readonly draft?: CloudEvent };

/** `buildEvent` for a decoder that may have found faults of its own: tells the others with them. */
export function decodedFrom(parts: PartsRead, faults: Faults): Decoded {
  const event = eventFrom(parts, faults);
  const result = faults.result(event);
  return result.ok ? result : { ...result, draft: event() };
}

function eventFrom(parts: PartsRead, faults: Faults): () => CloudEvent {
  const values = new Map<string, string | undefined>();
  for (const [name, value] of parts.attributes) {
    if (values.has(name)) {
      faults.add(name, "INVALID_ATTRIBUTES", `${labelOf(name)} is given more than once; give it once.`);
      continue;
    }
    values.set(name, value);
    const fault = nameFault(name) ?? (value === undefined ? undefined : valueFault(name, value));
    if (fault !== undefined) faults.add(name, "INVALID_ATTRIBUTES", `${fault}.`);
  }
  for (const [name, { required }] of CORE) {
    if (!required || values.has(name)) continue;
    faults.add(name, "INVALID_ATTRIBUTES", `${name} is required and missing.`);
  }
  return () => {
    const time = values.get("time");
    return {
      id: values.get("id") ?? "",
      source: values.get("source") ?? "",
      type: values.get("type") ?? "",
      subject: values.get("subject"),
      time: time === undefined ? undefined : parseTimestamp(time),
      datacontenttype: values.get("datacontenttype"),
      dataschema: values.get("dataschema"),
      extensions: extensionsOf(values),
      data: parts.data,
    };
  };
}

/** Every attribute of an event with its value as text, `specversion` first, then the core ones, then the extensions. */
export function* attributesOf(event: CloudEvent): Generator<readonly [name: string, value: string]> {
  yield ["specversion", "1.0"];
  yield ["id", event.id];
  yield ["source", event.source];
  yield ["type", event.type];
  if (event.subject !== undefined) yield ["subject", event.subject];
  if (event.time !== undefined) yield ["time", event.time.text];
  if (event.datacontenttype !== undefined) yield ["datacontenttype", event.datacontenttype];
  if (event.dataschema !== undefined) yield ["dataschema", event.dataschema];
  yield* event.extensions;
}

/** Whether CloudEvents 1.0 itself defines the attribute; every other one is an extension. */
export function isCoreAttribute(name: string): boolean {
  return CORE.has(name);
}

function faultUnless(isSound: boolean, fault: string): string | undefined {
  return isSound ? undefined : fault;
}

// The name of an extension is the sender's text, of any length.
function labelOf(name: string): string {
  return CORE.has(name) ? name : `the attribute ${quote(name)}`;
}

function nameFault(name: string): string | undefined {
  if (name === "") return "an attribute's name may not be empty";
  if (name === "data") return 'an attribute may not have the name "data"';
  for (let at = 0; at < name.length; at += 1) {
    const code = name.charCodeAt(at);
    if (!((code >= 0x61 && code <= 0x7a) || (code >= 0x30 && code <= 0x39))) {
      return `the attribute name ${quote(name)} may only have lower-case letters a–z and digits`;
    }
  }
  return undefined;
}

function valueFault(name: string, value: string): string | undefined {
  if (FORBIDDEN.test(value)) {
    return `${labelOf(name)} may not have control characters, lone surrogates or Unicode noncharacters`;
  }
  const rule = CORE.get(name);
  if (rule === undefined) return undefined;
  if (value === "") return `${name} may not be empty${rule.required ? "" : "; leave it out instead"}`;
  const fault = rule.fault?.(value);
  return fault === undefined ? undefined : `${name} ${fault}`;
}

function extensionsOf(values: ReadonlyMap<string, string | undefined>): ReadonlyMap<string, string> {
  const extensions: [string, string][] = [];
  for (const [name, value] of values) {
    if (value !== undefined && !CORE.has(name)) extensions.push([name, value]);
  }
  return new Map(extensions.sort(([a], [b]) => (a < b ? -1 : 1)));
}
