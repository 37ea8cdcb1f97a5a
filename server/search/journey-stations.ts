import { type MessageInitShape } from "@bufbuild/protobuf";
import { formatDeadLetterName } from "#core/dead-letter-name.ts";
import { type LogPosition } from "#core/event.ts";
import { type StationSchema } from "#gen/weir/v1/search_pb.ts";
import { type LetterFact, type SkipFact } from "#postgres/journey.ts";
import { fromMicros } from "../wire.ts";
import { type Facts, placeKey } from "./journey-facts.ts";

/** A station as a message. */
export type Station = MessageInitShape<typeof StationSchema>;

/** A record as it was accepted, by what the log has of it. */
export interface Acceptance {
  readonly position: LogPosition;
  /** Microseconds since 1970. */
  readonly time: bigint;
  readonly principal: string;
}

/** A place that was passed without its record. */
export type Skipped = SkipFact & { readonly position: LogPosition };

/** Everything that is known of one event. */
export interface Known {
  readonly facts: Facts;
  /** Of records that the log alone has. */
  readonly accepted: readonly Acceptance[];
  readonly skips: readonly Skipped[];
}

/** When something happened, and after how many other things at the least. */
interface Moment {
  readonly time: bigint;
  readonly depth: number;
}

const NOTHING_BEFORE: Moment = { time: -(2n ** 63n), depth: 0 };

/** What happened, in its order: by time, but never an effect before its cause, however their clocks differ. */
export function stationsOf({ facts, accepted, skips }: Known): Station[] {
  const { stored, repeats, letters, replays } = facts;
  const found: { readonly station: Station; readonly moment: Moment }[] = [];
  const add = (
    moment: Moment,
    position: LogPosition | undefined,
    station: NonNullable<Station["station"]>,
    time: bigint | undefined,
  ): void => {
    const message: Station = { station };
    if (time !== undefined) message.time = fromMicros(time);
    if (position !== undefined) message.position = placeOf(position);
    found.push({ station: message, moment });
  };
  const acceptances = acceptancesOf(facts, accepted);
  const moments = createMoments(facts, acceptances);

  for (const { position, time, principal } of acceptances.values())
    add(at(time), position, { case: "accepted", value: { principal } }, time);
  for (const [place, { event, storedAt }] of stored)
    add(moments.outcome(place), event.position, { case: "stored", value: {} }, storedAt);
  const firstStored = latest([...stored.keys()].map((place) => moments.outcome(place)));
  for (const [place, { position, recordedAt, differs }] of repeats) {
    const moment = after(firstStored, after(moments.outcome(place), at(recordedAt)));
    add(moment, position, { case: "duplicate", value: { differs } }, recordedAt);
  }
  for (const [place, { letter, reason, detail, attempt, time }] of letters) {
    const value = { deadLetter: formatDeadLetterName(letter), reason, detail, attempt };
    add(moments.outcome(place), letter, { case: "deadLettered", value }, time);
  }
  for (const [place, { letter, attempt, principal, cause, position, time }] of replays) {
    const value = { deadLetter: formatDeadLetterName(letter), attempt, principal, cause };
    add(moments.replay(place), position, { case: "replayed", value }, time);
  }
  for (const [place, letter] of letters) {
    for (const time of unnoted(facts, letter)) {
      const moment = after(moments.outcome(place), time === undefined ? undefined : at(time));
      const value = { deadLetter: formatDeadLetterName(letter.letter) };
      add(moment, undefined, { case: "replayed", value }, time);
    }
  }
  for (const { position, recordedAt, kind, from, to } of skips) {
    const value = { kind, fromOffset: from, toOffset: to };
    const place = placeKey(position);
    const moment = after(moments.origin(place), at(recordedAt));
    add(moment, position, { case: "skipped", value }, recordedAt);
  }
  return found.toSorted((a, b) => compare(a.moment, b.moment)).map(({ station }) => station);
}

/** By place. A record that is a replay was not accepted anew; nor is it where the store lacks the note of that. */
function acceptancesOf(
  { stored, letters, replays }: Facts,
  fromLog: readonly Acceptance[],
): ReadonlyMap<string, Acceptance> {
  const found = new Map<string, Acceptance>();
  for (const [place, { letter, recordTime, principal, attempt }] of letters)
    if (attempt === 0 && !replays.has(place))
      found.set(place, { position: letter, time: recordTime, principal });
  const ofLetters = new Set([...found.values()].map(({ time }) => time));
  for (const [place, { event }] of stored) {
    const { position, principal } = event;
    const time = BigInt(event.acceptTime) * 1_000n;
    if (!replays.has(place) && !ofLetters.has(time)) found.set(place, { position, time, principal });
  }
  for (const each of fromLog) {
    const place = placeKey(each.position);
    if (!replays.has(place) && !found.has(place)) found.set(place, each);
  }
  return found;
}

/** When, of each replay that only the letter tells of. The letter has the time of the last one. */
function unnoted({ replays }: Facts, { letter, replays: count, lastReplay }: LetterFact) {
  const noted = [...replays.values()].filter((each) => placeKey(each.letter) === placeKey(letter));
  const missing = Array<bigint | undefined>(Math.max(0, count - noted.length)).fill(undefined);
  if (missing.length > 0 && !noted.some(({ time }) => time === lastReplay)) missing[0] = lastReplay;
  return missing;
}

interface Moments {
  /** Of what brought a record to a place: its acceptance, or a replay. */
  origin(place: string): Moment;
  /** Of what became of the record at a place. */
  outcome(place: string): Moment;
  /** Of the replay that brought a record to a place. */
  replay(place: string): Moment;
}

function createMoments(
  { stored, letters, replays }: Facts,
  acceptances: ReadonlyMap<string, Acceptance>,
): Moments {
  // A log that was made anew may have replays that lead in a circle.
  const open = new Set<string>();
  const replay = (place: string): Moment => {
    const fact = replays.get(place);
    if (fact === undefined || open.has(place)) return NOTHING_BEFORE;
    open.add(place);
    const moment = after(outcome(placeKey(fact.letter)), at(fact.time));
    open.delete(place);
    return moment;
  };
  const origin = (place: string): Moment => {
    const accepted = acceptances.get(place);
    return accepted === undefined ? replay(place) : at(accepted.time);
  };
  const outcome = (place: string): Moment => {
    const time = stored.get(place)?.storedAt ?? letters.get(place)?.time;
    return after(origin(place), time === undefined ? undefined : at(time));
  };
  return { origin, outcome, replay };
}

function at(time: bigint): Moment {
  return { time, depth: 0 };
}

/** Of what came after something, as it says of itself. */
function after(cause: Moment, own: Moment = NOTHING_BEFORE): Moment {
  return {
    time: cause.time > own.time ? cause.time : own.time,
    depth: Math.max(cause.depth + 1, own.depth),
  };
}

function latest(moments: readonly Moment[]): Moment {
  return moments.reduce((a, b) => (compare(a, b) < 0 ? b : a), NOTHING_BEFORE);
}

function compare(a: Moment, b: Moment): number {
  if (a.time === b.time) return a.depth - b.depth;
  return a.time < b.time ? -1 : 1;
}

function placeOf({ topic, partition, offset }: LogPosition): LogPosition {
  return { topic, partition, offset };
}
