import { type MessageInitShape } from "@bufbuild/protobuf";
import { type HandlerContext } from "@connectrpc/connect";
import { formatEventName, parseEventName } from "#core/event-name.ts";
import { type LogPosition, type StoredEvent } from "#core/event.ts";
import { type Fault } from "#core/reason.ts";
import { type Event } from "#gen/weir/v1/event_pb.ts";
import {
  type GetEventJourneyRequest,
  type GetEventJourneyResponseSchema,
  type InFlightSchema,
} from "#gen/weir/v1/search_pb.ts";
import { occurredAt } from "#postgres/event-values.ts";
import { isKeptOf, MOST, skipAt } from "#postgres/journey.ts";
import { type Passed, passedBy } from "#postgres/log-audit.ts";
import { type Database } from "#postgres/pool.ts";
import { demandNone } from "../errors.ts";
import { endOf } from "../http/deadlines.ts";
import { createTurns } from "../turns.ts";
import { fromMicros, toEventMessage, toMicros, viewOf } from "../wire.ts";
import {
  collectFacts,
  type Facts,
  factsOf,
  keyOf,
  otherTimes,
  placeKey,
  placeText,
  type Sought,
} from "./journey-facts.ts";
import { type LogAnswer, type LogLook, type LogOptions, lookAtLog } from "./journey-log.ts";
import { notFound } from "./journey-not-found.ts";
import { type Acceptance, type Skipped, stationsOf } from "./journey-stations.ts";
import { type InReadTurn } from "./reads.ts";

/** What GetEventJourney needs. */
export interface JourneyOptions extends Omit<LogOptions, "turns"> {
  readonly database: Database;
  readonly inReadTurn: InReadTurn;
  /** The consumer group that stores the events of `topic`. */
  readonly group: string;
}

type Answer = MessageInitShape<typeof GetEventJourneyResponseSchema>;

/** What the store says. */
interface StoreLook {
  readonly facts: Facts;
  /** How far the group had come in each partition before the facts were looked up. */
  readonly passed: ReadonlyMap<number, Passed>;
  readonly skips: readonly Skipped[];
}

/** Journeys that ask Kafka at once, and that wait for it. */
const KAFKA_TURNS = { concurrency: 8, queue: 64, waitMs: 1_000 };
/** Records without an outcome that are told of at most. */
const MOST_OPEN = 10;

/** SearchService/GetEventJourney: what the store knows of an event, then what only the log does. */
export function createGetEventJourney(options: JourneyOptions) {
  const log = { ...options, turns: createTurns(KAFKA_TURNS) };
  return async (request: GetEventJourneyRequest, { signal }: HandlerContext): Promise<Answer> => {
    const sought = readSought(request);
    const store = await options.inReadTurn({ method: "journey", signal }, () =>
      lookUp(options, sought, signal),
    );
    const look = lookAtLog(log, signal);
    try {
      const onLog = await acceptanceOnLog(look, store, sought.position);
      refuseAnother(sought, store.facts, eventOf(onLog));
      const answer = await understand(options, sought, store, onLog, look);
      if (answer !== undefined) return answer;
      throw await notFound(options, { sought, ...store, onLog, look }, signal);
    } catch (error) {
      if (signal.aborted) throw endOf(signal);
      throw error;
    }
  };
}

/** @throws ConnectError with every fault of the request. */
function readSought({ name, time, position }: GetEventJourneyRequest): Sought {
  const identity = parseEventName(name);
  const faults: Fault[] = identity.ok ? [] : [...identity.faults];
  const invalid = (field: string, description: string): void =>
    void faults.push({ field, reason: "INVALID_REQUEST", description });
  if (identity.ok && (identity.value.source.includes("\0") || identity.value.id.includes("\0")))
    faults.push({ field: "name", reason: "INVALID_NAME", description: "No event has a NUL in its name." });
  const micros = time && toMicros(time);
  if (time !== undefined && micros === undefined)
    invalid("time", "The time must lie in the years 0001 to 9999, with nanos from 0 to 999,999,999.");
  if (position !== undefined) {
    const { topic, partition, offset } = position;
    if (topic === "" || topic.includes("\0"))
      invalid("position.topic", "A position has the name of a topic.");
    if (partition < 0) invalid("position.partition", "A partition is 0 or above.");
    if (offset < 0n) invalid("position.offset", "An offset is 0 or above.");
  }
  demandNone(faults);
  if (!identity.ok) throw new Error("A name that is none is a fault.");
  return { ...identity.value, time: micros, position: position && toPosition(position) };
}

function toPosition({ topic, partition, offset }: LogPosition): LogPosition {
  return { topic, partition, offset };
}

async function lookUp(
  { database, group, topic }: JourneyOptions,
  sought: Sought,
  signal: AbortSignal,
): Promise<StoreLook> {
  // First how far the group has come: what is below that has an outcome in all that is read after it.
  const passed = await passedBy(database, { group, topic }, signal);
  const { position } = sought;
  const since = position?.topic === topic ? passed.get(position.partition)?.logSinceMicros : undefined;
  const facts = await collectFacts(database, group, { ...sought, since }, signal);
  const skips: Skipped[] = [];
  for (const place of openPlaces(facts, position)) {
    if (!isPassed(passed, topic, place)) continue;
    const skip = await skipAt(database, group, place, signal);
    const logSince = passed.get(place.partition)?.logSinceMicros;
    if (skip === undefined || (logSince !== undefined && skip.recordedAt < logSince)) continue;
    skips.push({ ...skip, position: place });
  }
  return { facts, passed, skips };
}

/** Where a record is, or may be, of which the store has no outcome. */
function openPlaces(
  { stored, repeats, letters, replays }: Facts,
  position: LogPosition | undefined,
): readonly LogPosition[] {
  const places = new Map(position && [[placeKey(position), position]]);
  for (const [place, replay] of replays) places.set(place, replay.position);
  const open = [...places].filter(
    ([place]) => !stored.has(place) && !repeats.has(place) && !letters.has(place),
  );
  return open.slice(0, MOST_OPEN).map(([, place]) => place);
}

function isPassed(passed: StoreLook["passed"], topic: string, place: LogPosition): boolean {
  return place.topic === topic && place.offset < (passed.get(place.partition)?.highWater ?? 0n);
}

/** The record at the position, where the log alone can tell of its acceptance. */
async function acceptanceOnLog(
  look: LogLook,
  { facts }: StoreLook,
  position: LogPosition | undefined,
): Promise<LogAnswer | undefined> {
  if (position === undefined) return undefined;
  const place = placeKey(position);
  return facts.stored.has(place) || facts.letters.has(place) ? undefined : look.recordAt(position);
}

function eventOf(onLog: LogAnswer | undefined): StoredEvent | undefined {
  return onLog?.record?.event.ok === true ? onLog.record.event.value : undefined;
}

/** @throws ConnectError where another event than the one that is sought stands at its position. */
function refuseAnother(
  { source, id, time, position }: Sought,
  { stored, repeats, letters }: Facts,
  logged: StoredEvent | undefined,
): void {
  if (position === undefined) return;
  const place = placeKey(position);
  const [row, repeat, letter] = [stored.get(place), repeats.get(place), letters.get(place)];
  const there = row?.event.event ?? repeat ?? letter?.event ?? logged?.event;
  const isSame =
    there === letter?.event && letter?.event !== undefined
      ? isKeptOf(letter.event, { source, id })
      : there?.source === source && there.id === id;
  const key = row?.key ?? repeat?.key ?? letter?.key ?? (logged && occurredAt(logged));
  const refuse = (description: string): void =>
    demandNone([{ field: "position", reason: "INVALID_REQUEST", description }]);
  if (there !== undefined && !isSame)
    refuse(`Another event stands there: ${formatEventName(there.source, there.id)}.`);
  if (time !== undefined && key !== undefined && key !== time)
    refuse(`The event there has another time: ${new Date(Number(key / 1_000n)).toISOString()}.`);
}

/** What is known of the event, as the answer; undefined where nothing is. */
async function understand(
  { topic }: JourneyOptions,
  sought: Sought,
  { facts, passed, skips }: StoreLook,
  onLog: LogAnswer | undefined,
  look: LogLook,
): Promise<Answer | undefined> {
  const { position } = sought;
  const logged = eventOf(onLog);
  const key = keyOf(facts, sought, logged && occurredAt(logged));
  const own = factsOf(facts, key, position);
  const accepted: Acceptance[] = [];
  if (position !== undefined && logged !== undefined && onLog?.record?.isReplay === false) {
    const { acceptTime, principal } = logged;
    accepted.push({ position, time: BigInt(acceptTime) * 1_000n, principal });
  }
  const isHere = (place: LogPosition): boolean =>
    position !== undefined && placeKey(place) === placeKey(position);
  const open = openPlaces(own, position);
  const ownSkips = skips.filter((skip) => open.some((place) => placeKey(place) === placeKey(skip.position)));
  const stations = stationsOf({ facts: own, accepted, skips: ownSkips });
  // Of a replay it is noted that it is on the log; of the position it is only said.
  const waiting = open.filter(
    (place) =>
      place.topic === topic &&
      !isPassed(passed, topic, place) &&
      (!isHere(place) || onLog?.record !== undefined || own.replays.has(placeKey(place))),
  );
  if (stations.length === 0 && waiting.length === 0) return undefined;
  const ranges = waiting.length > 0 ? await look.ranges() : undefined;
  const others = otherTimes(facts, key);
  const event = eventMessage(own, logged);
  return {
    stations,
    ...(event && { event }),
    inFlight: waiting.map((place) => toInFlight(place, passed, ranges)),
    otherTimes: others.slice(0, MOST).map(fromMicros),
    truncated: facts.truncated || others.length > MOST,
    unknown: [
      ...unknownAt(position, onLog, own),
      ...(waiting.length > 0 && ranges === undefined
        ? ["How far the log goes beyond what is in flight: Kafka did not say."]
        : []),
      ...open
        .filter((place) => isPassed(passed, topic, place) && !skips.some((skip) => skip.position === place))
        .map(
          (place) =>
            `What became of the record at ${placeText(place)}: the group has passed it, and the store has nothing of it. Retention took it, or the log was made anew.`,
        ),
    ],
  };
}

/** What the log did not tell of the position. */
function unknownAt(
  position: LogPosition | undefined,
  onLog: LogAnswer | undefined,
  { replays }: Facts,
): readonly string[] {
  if (position === undefined || onLog === undefined) return [];
  const { record, why } = onLog;
  const place = placeText(position);
  if (why !== undefined)
    return [`Whether the log has the record at ${place}, and when it was accepted: ${why}.`];
  if (record === undefined) return [`When the record at ${place} was accepted: the log has it no longer.`];
  if (!record.event.ok)
    return [
      `Whether the record at ${place} is this event: it cannot be read. ${record.event.faults[0].description}`,
    ];
  if (record.isReplay && !replays.has(placeKey(position)))
    return [`Who replayed the record at ${place}: that was not noted.`];
  return [];
}

/** Without its data. */
function eventMessage({ stored }: Facts, logged: StoredEvent | undefined): Event | undefined {
  const [row] = stored.values();
  if (row !== undefined) return toEventMessage(row.event);
  if (logged === undefined) return undefined;
  const view = viewOf(logged);
  return toEventMessage({ ...view, event: { ...view.event, data: undefined } });
}

function toInFlight(
  position: LogPosition,
  passed: StoreLook["passed"],
  ranges: Awaited<ReturnType<LogLook["ranges"]>>,
): MessageInitShape<typeof InFlightSchema> {
  const highWater = passed.get(position.partition)?.highWater;
  const logEnd = ranges?.get(position.partition)?.end;
  return {
    position,
    ...(highWater !== undefined && { highWater }),
    ...(logEnd !== undefined && { logEnd }),
  };
}
