import { type Filter } from "#core/filter/tree.ts";
import { quote } from "#core/faults.ts";
import { decodePageToken, encodePageToken, faultsOfPageToken } from "#core/page-token.ts";
import { type Fault, type Result } from "#core/reason.ts";
import { type StoredEvent } from "#core/event.ts";
import { occurredAt } from "#postgres/events.ts";
import { type Cursor, type EventOrder } from "#postgres/search.ts";
import { readFilter } from "../filter.ts";

/** Which events a request asks for, in what order and from where on. */
export interface Question {
  /** undefined: all. */
  readonly filter: Filter | undefined;
  /** What `now` is in the filter, in milliseconds since 1970: when the first page was asked for. */
  readonly now: number;
  readonly order: EventOrder;
  /** undefined: from the first on. */
  readonly after: Cursor | undefined;
  /** The token to go on with after an event. */
  tokenAfter(this: void, event: Placed): string;
}

/** An event in the order of a search. */
export type Placed = Pick<StoredEvent, "acceptTime" | "position"> & {
  readonly event: Pick<StoredEvent["event"], "time">;
};

/** The fields of a request that say it. */
export interface QuestionFields {
  readonly filter: string;
  readonly orderBy: string;
  readonly pageToken: string;
}

const DEFAULT_ORDER = "time desc";
const ORDERS: readonly EventOrder[] = ["time desc", "time"];

/** The question, or every fault of it. Where one part has a fault, the others are looked at as far as they can be alone. */
export function readQuestion(fields: QuestionFields): Result<Question> {
  const faults: Fault[] = [];
  const asked = readFilter(fields.filter);
  if (!asked.ok) faults.push(...asked.faults);
  const wanted = fields.orderBy.trim().replace(/\s+/g, " ") || DEFAULT_ORDER;
  const order = ORDERS.find((each) => each === wanted);
  if (order === undefined) {
    const description = `${quote(fields.orderBy)} is no order: give "time desc" (the default: newest first) or "time".`;
    faults.push({ field: "order_by", reason: "INVALID_ORDER_BY", description });
  }
  const { pageToken } = fields;
  if (!asked.ok || order === undefined) {
    if (pageToken !== "") faults.push(...faultsOfPageToken(pageToken));
    return { ok: false, faults: faults as [Fault, ...Fault[]] };
  }
  const pages = { filter: asked.value.canonical, order };
  const cursor = pageToken === "" ? undefined : decodePageToken(pageToken, pages);
  if (cursor?.ok === false) return cursor;
  const now = cursor?.value.askedAt ?? Date.now();
  const value: Question = {
    filter: asked.value.filter,
    now,
    order,
    after: cursor && { ...cursor.value, occurredAt: cursor.value.time },
    tokenAfter(event) {
      const { partition, offset } = event.position;
      return encodePageToken({ time: occurredAt(event), partition, offset, askedAt: now }, pages);
    },
  };
  return { ok: true, value };
}
