import { type CloudEvent, type StoredEvent } from "../event.ts";
import { parseTimestamp } from "../timestamp.ts";
import { encodeUtf8 } from "../utf8.ts";
import { createEvaluator } from "./evaluate.ts";
import { examine } from "./examine.ts";
import { parseFilter } from "./parse.ts";
import { type Filter } from "./tree.ts";

// What the tests of the evaluator share.

/** The moment of asking. */
export const NOW: number = Date.UTC(2026, 10, 30, 12);

/** An event by what differs from a plain one; `data` as text or bytes. */
export interface Sketch extends Partial<Omit<CloudEvent, "data" | "time" | "extensions">> {
  readonly time?: string;
  readonly extensions?: Readonly<Record<string, string>>;
  readonly data?: string | Uint8Array;
  readonly protoType?: string;
}

/** The event of a sketch, received a minute before {@link NOW}, at an offset that no double holds. */
export function stored({ data, time, extensions = {}, protoType, ...attributes }: Sketch): StoredEvent {
  return {
    event: {
      id: "a-1",
      source: "/billing/eu",
      type: "com.acme.order.paid",
      subject: undefined,
      dataschema: undefined,
      datacontenttype: undefined,
      ...attributes,
      time: time === undefined ? undefined : parseTimestamp(time),
      extensions: new Map(Object.entries(extensions)),
      data:
        data === undefined
          ? undefined
          : { bytes: typeof data === "string" ? encodeUtf8(data) : data, protoType },
    },
    acceptTime: NOW - 60_000,
    principal: "alice",
    traceParent: undefined,
    traceState: undefined,
    position: { topic: "weir.events.v1", partition: 3, offset: 9_007_199_254_740_993n },
  };
}

/** The filter of a text that is known to be sound. */
export function filterOf(text: string): Filter | undefined {
  const parsed = parseFilter(text);
  if (!parsed.ok) throw new Error(`${text}: ${parsed.faults[0].description}`);
  return parsed.value;
}

/** Whether the event matches at {@link NOW}, with the terms of a row where they are given. */
export const matches = (text: string, event: Sketch, terms?: readonly number[]): boolean =>
  createEvaluator(filterOf(text))(examine(stored(event), terms), NOW);
