import { type CloudEvent, type EventData, type Timestamp } from "./event.ts";
import { createFaults, type Faults, quote, refuse } from "./faults.ts";
import { isMediaType } from "./media-type.ts";
import { type Result } from "./reason.ts";
import { readTimestamp } from "./timestamp.ts";
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

/** An attribute as a decoder read it: null is set to nothing, as good as absent; undefined unreadable, which is noted. */
export type AttributeRead = readonly [name: string, value: string | null | undefined];

/**
 * The most attributes that a decoder reads of an event, set or not, before it refuses it: far more than any limit lets in,
 * and few enough that hostile bytes do not become a hundred times as much memory.
 */
export const MAX_ATTRIBUTES = 1_000;

/** The refusal of an event with more. */
export function tooManyAttributes(): Result<never> {
  const description = `The event has more than ${MAX_ATTRIBUTES} attributes.`;
  return refuse("", "TOO_LARGE", description, { limit: String(MAX_ATTRIBUTES), unit: "attributes" });
}

/** `EventParts` as a decoder read them. */
interface PartsRead {
  readonly attributes: Iterable<AttributeRead>;
  readonly data: EventData | undefined;
  /** That the decoder has seen that all values are of U+0020 to U+007E, so that nobody looks at each again. */
  readonly arePrintable?: boolean;
}

/**
 * An event, or its faults and beside them a draft: what was read in spite of them, "" for a required attribute that was
 * not. A draft is for further checks (admission), so that a sender learns of everything at once; it is never an event.
 */
export type Decoded = Result<CloudEvent> & { readonly draft?: CloudEvent };

/**
 * Builds an event, or says everything that is wrong with its attributes, each fault with the attribute's name as its
 * field. All decoders end here, so the rules of CloudEvents 1.0 for names, values and required attributes stand in one
 * place. Limits and the time window are not checked here: see admission.ts.
 */
export function buildEvent(parts: EventParts): Result<CloudEvent> {
  const faults = createFaults();
  const event = eventFrom(parts, faults);
  return faults.result(() => event);
}

/** `buildEvent` for a decoder that may have found faults of its own: tells the others with them. */
export function decodedFrom(parts: PartsRead, faults: Faults): Decoded {
  const event = eventFrom(parts, faults);
  const result = faults.result(() => event);
  return result.ok ? result : { ...result, draft: event };
}

/** Every attribute of an event with its value as text, `specversion` first, then the core ones, then the extensions. */
export function attributesOf(event: CloudEvent): [name: string, value: string][] {
  const attributes: [string, string][] = [
    ["specversion", "1.0"],
    ["id", event.id],
    ["source", event.source],
    ["type", event.type],
  ];
  if (event.subject !== undefined) attributes.push(["subject", event.subject]);
  if (event.time !== undefined) attributes.push(["time", event.time.text]);
  if (event.datacontenttype !== undefined) attributes.push(["datacontenttype", event.datacontenttype]);
  if (event.dataschema !== undefined) attributes.push(["dataschema", event.dataschema]);
  for (const extension of event.extensions) attributes.push(extension);
  return attributes;
}

/** Whether CloudEvents 1.0 itself defines the attribute; every other one is an extension. */
export function isCoreAttribute(name: string): boolean {
  return placeOf(name) >= 0;
}

interface Rule {
  readonly name: string;
  readonly isRequired: boolean;
  /** What is wrong with a value that is not empty, as the rest of a sentence. */
  readonly fault?: (value: string) => string | undefined;
}

const CORE: readonly Rule[] = [
  {
    name: "specversion",
    isRequired: true,
    fault: (value) => (value === "1.0" ? undefined : 'must be "1.0"'),
  },
  { name: "id", isRequired: true },
  {
    name: "source",
    isRequired: true,
    fault: (value) => (isUriReference(value) ? undefined : "must be a URI-reference (RFC 3986 § 4.1)"),
  },
  { name: "type", isRequired: true },
  { name: "subject", isRequired: false },
  { name: "time", isRequired: false },
  {
    name: "datacontenttype",
    isRequired: false,
    fault: (value) =>
      isMediaType(value) ? undefined : 'must be a media type (RFC 2046), such as "application/json"',
  },
  {
    name: "dataschema",
    isRequired: false,
    fault: (value) => (isUri(value) ? undefined : "must be a URI with a scheme (RFC 3986 § 3)"),
  },
];
/** Where a core attribute stands in CORE; -1 for an extension. */
function placeOf(name: string): number {
  switch (name) {
    case "specversion":
      return 0;
    case "id":
      return 1;
    case "source":
      return 2;
    case "type":
      return 3;
    case "subject":
      return 4;
    case "time":
      return 5;
    case "datacontenttype":
      return 6;
    case "dataschema":
      return 7;
    default:
      return -1;
  }
}

// This runs for every event, whichever way it comes: one walk, the core attributes by their place.
function eventFrom({ attributes, data, arePrintable = false }: PartsRead, faults: Faults): CloudEvent {
  const values: (string | null | undefined)[] = [null, null, null, null, null, null, null, null];
  const extensions: AttributeRead[] = [];
  let named = 0;
  let inOrder = true;
  let last = "";
  for (const attribute of attributes) {
    const [name, value] = attribute;
    const place = placeOf(name);
    if (place < 0) {
      extensions.push(attribute);
      inOrder &&= name > last;
      last = name;
    } else if ((named & (1 << place)) !== 0) {
      addRepeated(name, faults);
    } else {
      named |= 1 << place;
      values[place] = value;
    }
  }
  // A flood of faults is cut, so those of the attributes that matter most come first.
  CORE.forEach((rule, place) => checkCore(rule, values[place], arePrintable, faults));
  const [, id, source, type, subject, time, datacontenttype, dataschema] = values;
  return {
    id: id ?? "",
    source: source ?? "",
    type: type ?? "",
    subject: subject ?? undefined,
    time: time ? timeFrom(time, faults) : undefined,
    datacontenttype: datacontenttype ?? undefined,
    dataschema: dataschema ?? undefined,
    extensions: extensionsFrom(extensions, { inOrder, arePrintable }, faults),
    data,
  };
}

function checkCore(
  { name, isRequired, fault }: Rule,
  value: string | null | undefined,
  isPrintable: boolean,
  faults: Faults,
): void {
  if (value === undefined) return;
  let problem: string | undefined;
  if (value === null) problem = isRequired ? "is required and missing" : undefined;
  else if (value === "") problem = `may not be empty${isRequired ? "" : "; leave it out instead"}`;
  else problem = (isPrintable ? undefined : textFault(value)) ?? fault?.(value);
  if (problem !== undefined) faults.add(name, "INVALID_ATTRIBUTES", `${name} ${problem}.`);
}

function timeFrom(text: string, faults: Faults): Timestamp | undefined {
  const time = readTimestamp(text);
  if (typeof time !== "string") return time;
  if (textFault(text) === undefined) faults.add("time", "INVALID_ATTRIBUTES", `time ${time}.`);
  return undefined;
}

function checkExtension(name: string, value: string | undefined, faults: Faults): void {
  let fault = nameFault(name);
  if (fault === undefined && value !== undefined) {
    const problem = textFault(value);
    if (problem !== undefined) fault = `${labelOf(name)} ${problem}`;
  }
  if (fault !== undefined) faults.add(name, "INVALID_ATTRIBUTES", `${fault}.`);
}

function extensionsFrom(
  read: AttributeRead[],
  { inOrder, arePrintable }: { readonly inOrder: boolean; readonly arePrintable: boolean },
  faults: Faults,
): ReadonlyMap<string, string> {
  for (const [name, value] of read) {
    if (value !== null) checkExtension(name, arePrintable ? undefined : value, faults);
  }
  if (!inOrder) read.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  const extensions = new Map<string, string>();
  let last: string | undefined;
  for (const [name, value] of read) {
    if (name === last) addRepeated(name, faults);
    else if (typeof value === "string") extensions.set(name, value);
    last = name;
  }
  return extensions;
}

function addRepeated(name: string, faults: Faults): void {
  faults.add(name, "INVALID_ATTRIBUTES", `${labelOf(name)} is given more than once; give it once.`);
}

// The name of an extension is the sender's text, of any length.
function labelOf(name: string): string {
  return isCoreAttribute(name) ? name : `the attribute ${quote(name)}`;
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

// The characters that CloudEvents forbids in a string (type system, "String"): controls, lone surrogates, noncharacters.
const FORBIDDEN = /[\p{Cc}\p{Cs}\p{Noncharacter_Code_Point}]/u;

function textFault(value: string): string | undefined {
  if (!FORBIDDEN.test(value)) return undefined;
  return "may not have control characters, lone surrogates or Unicode noncharacters";
}
