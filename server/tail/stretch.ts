import { toBinary } from "@bufbuild/protobuf";
import { type Evaluator } from "#core/filter/evaluate.ts";
import { examine, type ExaminedEvent } from "#core/filter/examine.ts";
import { type LogOffsets } from "#core/tail-cursor.ts";
import { type Event, EventSchema } from "#gen/weir/v1/event_pb.ts";
import { type LogEvent, type LogStretch } from "#postgres/log-reader.ts";
import { toEventMessage, viewOf } from "../wire.ts";

/** How events are shown: without data, with them, or with them in what goes out as JSON. */
export type Form = "summary" | "data" | "json";

/** A message with its size in protobuf, in bytes. */
export interface SizedMessage {
  readonly message: Event;
  readonly size: number;
}

/** An event that tails look at. What they make of it is made once, however many they are. */
export interface TailEvent {
  readonly examined: ExaminedEvent;
  readonly partition: number;
  readonly offset: bigint;
  shown(form: Form): SizedMessage;
}

/** A filter, by which stretches remember what it matches. */
export interface TailFilter {
  /** In canonical form. */
  readonly canonical: string;
  readonly matches: Evaluator;
}

/** A part of the log, from one place to another. */
export interface Stretch {
  readonly start: LogOffsets;
  readonly end: LogOffsets;
  readonly events: readonly TailEvent[];
  /** About how many bytes it takes. */
  readonly weight: number;
  /** Which events a filter matches, by their indices, in order. Asked once for each filter, by the time of then. */
  matching(filter: TailFilter): readonly number[];
}

/** What an event is taken to weigh beside its payload and what is made of it: measured, with room to spare. */
const EVENT_WEIGHT = 4_096;
/** A payload stands there as it came, as text, as values and as folded text. */
const DATA_FACTOR = 4;

/** A part of the log as it was read, from a place on. */
export function createStretch(start: LogOffsets, { events: read, next }: LogStretch): Stretch {
  const events = read.map(createTailEvent);
  const found = new Map<string, readonly number[]>();
  return {
    start,
    end: next,
    events,
    weight: read.reduce((sum, { stored }) => {
      const size = stored.event.data?.bytes.byteLength ?? 0;
      return sum + EVENT_WEIGHT + DATA_FACTOR * size;
    }, 0),
    matching({ canonical, matches }) {
      let indices = found.get(canonical);
      if (indices === undefined) {
        const now = Date.now();
        indices = events.flatMap(({ examined }, index) => (matches(examined, now) ? [index] : []));
        found.set(canonical, indices);
      }
      return indices;
    },
  };
}

function createTailEvent({ stored, terms }: LogEvent): TailEvent {
  const forms = new Map<Form, SizedMessage>();
  const { partition, offset } = stored.position;
  return {
    examined: examine(stored, terms),
    partition,
    offset,
    shown(form) {
      let shown = forms.get(form);
      if (shown === undefined) {
        const view = viewOf(stored);
        const { data: _, ...event } = view.event;
        const message = toEventMessage(form === "summary" ? { ...view, event } : view, form === "json");
        shown = { message, size: toBinary(EventSchema, message).byteLength };
        forms.set(form, shown);
      }
      return shown;
    },
  };
}
