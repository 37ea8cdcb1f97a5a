import { randomUUID } from "node:crypto";

import { buildEvent } from "#core/attributes.ts";
import { type CloudEvent } from "#core/event.ts";

import { type PeerData, type PeerEvent } from "./peer.ts";

/** Where all of them come from. */
export const SOURCE = "/test/interop";

/** What `sampleEvents` has. */
export const KINDS = [
  "text",
  "JSON",
  "bytes",
  "no data",
  "every attribute",
  "percent signs",
  "text beyond ASCII",
] as const;

/** One of KINDS. */
export type Kind = (typeof KINDS)[number];

/** An event of each kind. */
export type Samples = Readonly<Record<Kind, PeerEvent>>;

/** Events of every kind of payload and attribute; new ids with each call. */
export function sampleEvents(): Samples {
  const json = { z: 1.5, a: [true, null, "ü"], nested: { "": "€ 😀" } };
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, index) => index));
  return {
    text: event({ datacontenttype: "text/plain" }, { text: "grüße, 世界 😀\r\n" }),
    JSON: event({ datacontenttype: "application/json" }, { json }),
    bytes: event({ datacontenttype: "application/octet-stream" }, { base64: bytes.toString("base64") }),
    "no data": event({}),
    "every attribute": event(
      {
        subject: "orders/17;x='y'",
        dataschema: "https://example.com/schema?v=1#order",
        datacontenttype: "application/json",
        partitionkey: "key-1",
        text: "with spaces",
        whole: -2_147_483_648,
        flag: true,
        bytes: "AAH+/w==",
        link: "https://example.com/a?b#c",
        reference: "../a",
        instant: "2026-01-02T03:04:05Z",
      },
      { json: { ok: true } },
    ),
    "percent signs": event({ subject: "a%2Fb", datacontenttype: "text/plain" }, { text: "%" }),
    "text beyond ASCII": event({ subject: 'ü 世界 😀 "q" 100%', note: "Ā" }),
  };
}

function event(attributes: PeerEvent["attributes"], data: PeerData | null = null): PeerEvent {
  const required = { specversion: "1.0", id: randomUUID(), source: SOURCE, type: "com.example.met" };
  return { attributes: { ...required, time: time(), ...attributes }, data };
}

/** Now, with an offset and microseconds, which not every SDK keeps. */
function time(): string {
  return new Date(Date.now() + 3_600_000).toISOString().replace(/\.\d+Z$/, ".123456+01:00");
}

/** The event's id. */
export function idOf({ attributes }: PeerEvent): string {
  return String(attributes["id"]);
}

/** Attributes by name, as text. */
export function fromAttributes(
  attributes: Iterable<readonly [name: string, value: string | number | boolean]>,
): Readonly<Record<string, string>> {
  return Object.fromEntries(Array.from(attributes, ([name, value]) => [name, String(value)]));
}

/** The event as Weir has it. */
export function toCore({ attributes, data }: PeerEvent): CloudEvent {
  const bytes = data && toBytes(data);
  const built = buildEvent({
    attributes: Object.entries(fromAttributes(Object.entries(attributes))),
    data: bytes ? { bytes, protoType: undefined } : undefined,
  });
  if (!built.ok) throw new Error(JSON.stringify(built));
  return built.value;
}

function toBytes(data: PeerData): Uint8Array {
  if ("base64" in data) return Buffer.from(data.base64, "base64");
  return Buffer.from("text" in data ? data.text : JSON.stringify(data.json));
}

/** Data in the same form as others, where they are the same payload; else as they are. JSON is told by its value. */
export function inFormOf(other: PeerData | null, data: PeerData | null): PeerData | null {
  if (data === null || other === null || "json" in data) return data;
  const bytes = Buffer.from(toBytes(data));
  if ("base64" in other) return { base64: bytes.toString("base64") };
  if ("text" in other) return { text: bytes.toString() };
  return { json: JSON.parse(bytes.toString()) as Record<string, unknown> };
}
