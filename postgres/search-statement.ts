import type pg from "pg";

import { costOf } from "#core/filter/cost.ts";
import { type Filter } from "#core/filter/tree.ts";
import { timeBounds } from "#core/filter/time-bounds.ts";

import { encodeTimestamptz } from "./binary-format.ts";
import { compileFilter } from "./filter.ts";
import { compileNumberNeed, EVENT_DAY, numberNeeds, numberPathKey } from "./number-paths.ts";
import { createParameters, type Parameters } from "./parameters.ts";
import { chooseWay, chooseWindows, type Window } from "./search-windows.ts";
import { type StoreStatistics } from "./store-statistics.ts";
import { compileNeeds, termNeeds } from "./term-needs.ts";

/** "time desc": the newest first; "time": the oldest first. Equal times go by (partition, offset), the same way round. */
export type EventOrder = "time desc" | "time";

/** The place of an event in the order of a search: `occurredAt` of events.ts and its position. */
export interface Cursor {
  /** Microseconds since 1970. */
  readonly occurredAt: bigint;
  readonly partition: number;
  readonly offset: bigint;
}

/** Which events are asked for. */
export interface Question {
  /** undefined: all. */
  readonly filter: Filter | undefined;
  /** The moment from which relative times of the filter count, in milliseconds since 1970. */
  readonly now: number;
}

/** Events in an order, from a place on. */
export interface Selection extends Question {
  readonly order: EventOrder;
  /** The last event of the page before; undefined for the first page. */
  readonly after: Cursor | undefined;
  /** Events at most. */
  readonly limit: number;
}

const ORDERS: Readonly<Record<EventOrder, { readonly compare: "<" | ">"; readonly by: string }>> = {
  "time desc": { compare: "<", by: `occurred_at desc, partition desc, "offset" desc` },
  time: { compare: ">", by: `occurred_at, partition, "offset"` },
};

/** The order as SQL. */
export function orderBy(order: EventOrder): string {
  return ORDERS[order].by;
}

/** How the events are looked for. The answer is the same for any. */
export interface Windows {
  /** In the order asked for; together they are all of the time that is asked about. */
  readonly windows: readonly Window[];
  /** The keys of the paths of compared numbers whose index may serve. */
  readonly numberPaths: readonly string[];
}

/** The windows for a selection; see {@link chooseWindows}. */
export function windowsFor(selection: Selection, statistics: StoreStatistics): Windows {
  const { filter, now, order, after, limit } = selection;
  const needs = filter && termNeeds(filter);
  const { from, before } = filter ? timeBounds(filter, now) : {};
  const isNewestFirst = order === "time desc";
  const [least, end] = isNewestFirst
    ? [from, earliest(before, after && after.occurredAt + 1n)]
    : [latest(from, after?.occurredAt), before];
  const numberPaths = pathsOf(filter, statistics);
  const query = { needs, numberPaths, isNewestFirst, from: least, before: end, limit };
  return { windows: chooseWindows(query, statistics), numberPaths };
}

/**
 * A query for the columns of the selected events, in order, whose parameters are among those given. Each window is a part of
 * its own, whose events come after those of the one before; PostgreSQL begins with one where those before it had too few.
 */
export function selectEvents(
  columns: string,
  { filter, now, order, after, limit }: Selection,
  { windows, numberPaths }: Windows,
  parameters: Parameters,
): string {
  const { compare, by } = ORDERS[order];
  const { bind } = parameters;
  const needs = filter && termNeeds(filter);
  // Not bound where it is not used: PostgreSQL refuses a value that has no place.
  const isGathered = windows.some(({ way }) => way !== "walk");
  const needed = filter && needs && (isGathered || isHelping(filter)) && compileNeeds(needs, parameters);
  const matches = filter && `(${compileFilter(filter, { parameters, now })}) is true`;
  const helping = filter && needed && isHelping(filter) && `${needed} is true`;
  const most = bind(limit, "int8");
  const place =
    after &&
    `(${bind(encodeTimestamptz(after.occurredAt), "timestamptz")}, ${bind(after.partition, "int4")}, ${bind(after.offset, "int8")})`;
  const parts = windows.map(({ from, before, way }) => {
    const moment = way === "sift" ? HIDDEN_TIME : "occurred_at";
    const bounds = [
      ...(way === "sift" ? monthsOf(from, before, parameters) : []),
      from !== undefined && `${moment} >= ${bind(encodeTimestamptz(from), "timestamptz")}`,
      before !== undefined && `${moment} < ${bind(encodeTimestamptz(before), "timestamptz")}`,
      place && `(${moment}, partition, "offset") ${compare} ${place}`,
    ];
    // `offset 0` keeps the planner from mixing the two ways. In the first it knows of no condition but on the place in the
    // order, and so walks along the index of that; in the second it knows of no order.
    if (way === "walk") {
      const walked = `select * from events.event${where(...bounds)} order by ${by} offset 0`;
      return `select ${columns} from (${walked}) as event${where(helping, matches)} limit ${most}`;
    }
    const numbers = filter ? compileNumbers(filter, numberPaths, from, before, parameters) : [];
    const gathered = `select * from events.event${where(...bounds, ...numbers, needed, matches)} offset 0`;
    return `select ${columns} from (${gathered}) as event order by ${by} limit ${most}`;
  });
  return parts.length === 1
    ? parts[0]!
    : `${parts.map((part) => `(${part})`).join(" union all ")} limit ${most}`;
}

/** A query for the columns of all events that match, in no order. */
export function selectAll(
  columns: string,
  { filter, now }: Question,
  statistics: StoreStatistics,
  parameters: Parameters,
): string {
  const { bind } = parameters;
  const needs = filter && termNeeds(filter);
  const { from, before } = filter ? timeBounds(filter, now) : {};
  const matches = filter && `(${compileFilter(filter, { parameters, now })}) is true`;
  const numberPaths = pathsOf(filter, statistics);
  const way = chooseWay({ needs, numberPaths, from, before }, statistics);
  const isGathered = way !== "walk";
  const moment = way === "sift" ? HIDDEN_TIME : "occurred_at";
  const needed = filter && needs && (isGathered || isHelping(filter)) && compileNeeds(needs, parameters);
  return `select ${columns} from events.event${where(
    ...(way === "sift" ? monthsOf(from, before, parameters) : []),
    from !== undefined && `${moment} >= ${bind(encodeTimestamptz(from), "timestamptz")}`,
    before !== undefined && `${moment} < ${bind(encodeTimestamptz(before), "timestamptz")}`,
    ...(isGathered && filter ? compileNumbers(filter, numberPaths, from, before, parameters) : []),
    needed && (isGathered ? needed : `${needed} is true`),
    matches,
  )}`;
}

/** The time of an event as no index has it. */
const HIDDEN_TIME = "(occurred_at + interval '0')";

/** Bounds of the time that leave out months as a whole. */
function monthsOf(
  from: bigint | undefined,
  before: bigint | undefined,
  { bind }: Parameters,
): readonly (string | false)[] {
  const month = (micros: bigint, more: number): bigint => {
    const start = new Date(Math.floor(Number(micros) / 1_000));
    start.setUTCDate(1);
    start.setUTCHours(0, 0, 0, 0);
    start.setUTCMonth(start.getUTCMonth() + more);
    return BigInt(start.getTime()) * 1_000n;
  };
  return [
    from !== undefined && `occurred_at >= ${bind(encodeTimestamptz(month(from, 0)), "timestamptz")}`,
    before !== undefined && `occurred_at < ${bind(encodeTimestamptz(month(before, 1)), "timestamptz")}`,
  ];
}

/** The keys of the paths of numbers that are compared and have an index in some month. */
function pathsOf(filter: Filter | undefined, statistics: StoreStatistics): readonly string[] {
  const keys = filter === undefined ? [] : numberNeeds(filter).map(({ path }) => numberPathKey(path));
  return keys.filter((key) => statistics.some(({ numberPaths }) => numberPaths.has(key)));
}

/** What the indexes of numbers need of the query: the comparisons, and the days of the stretch of time. */
function compileNumbers(
  filter: Filter,
  numberPaths: readonly string[],
  from: bigint | undefined,
  before: bigint | undefined,
  parameters: Parameters,
): readonly string[] {
  const needs = numberNeeds(filter).filter(({ path }) => numberPaths.includes(numberPathKey(path)));
  if (needs.length === 0) return [];
  const dayOf = (moment: bigint): string =>
    `(${parameters.bind(encodeTimestamptz(moment), "timestamptz")} at time zone 'UTC')::date`;
  return [
    ...(from === undefined ? [] : [`${EVENT_DAY} >= ${dayOf(from)}`]),
    ...(before === undefined ? [] : [`${EVENT_DAY} <= ${dayOf(before)}`]),
    ...needs.map((need) => compileNumberNeed(need, parameters)),
  ];
}

/** Whether it is worth while to look at an event's terms before the filter is asked: attributes are compared sooner. */
function isHelping(filter: Filter): boolean {
  return costOf(filter) > 0;
}

/** {@link selectEvents} as a statement. */
export function selectStatement(columns: string, selection: Selection, windows: Windows): pg.QueryConfig {
  const parameters = createParameters();
  const text = selectEvents(columns, selection, windows, parameters);
  return { text, values: [...parameters.values] };
}

function where(...conditions: readonly (string | false | undefined)[]): string {
  const all = conditions.filter((each) => typeof each === "string");
  return all.length === 0 ? "" : ` where ${all.join(" and ")}`;
}

function latest(a: bigint | undefined, b: bigint | undefined): bigint | undefined {
  return a === undefined || (b !== undefined && b > a) ? b : a;
}

function earliest(a: bigint | undefined, b: bigint | undefined): bigint | undefined {
  return a === undefined || (b !== undefined && b < a) ? b : a;
}
