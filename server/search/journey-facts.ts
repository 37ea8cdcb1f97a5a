import { type EventIdentity } from "#core/event-name.ts";
import { type LogPosition } from "#core/event.ts";
import { quote } from "#core/faults.ts";
import {
  factsByName,
  factsByPlace,
  type LetterFact,
  type ReplayFact,
  type RepeatFact,
  type StoredFact,
} from "#postgres/journey.ts";
import { type Database } from "#postgres/pool.ts";

/** What the store has of an event and of the records that it came by, each row once; by {@link placeKey} where it has a place. */
export interface Facts {
  readonly stored: Map<string, StoredFact>;
  readonly repeats: Map<string, RepeatFact>;
  readonly letters: Map<string, LetterFact>;
  /** By where the record stands since. */
  readonly replays: Map<string, ReplayFact>;
  /** There is more. */
  truncated: boolean;
}

/** What is looked for. */
export interface Sought extends EventIdentity {
  readonly time: bigint | undefined;
  readonly position: LogPosition | undefined;
}

/** What is looked for, and when the group began on the log that the position is of; undefined: it is the first one. */
interface SoughtOnLog extends Sought {
  readonly since: bigint | undefined;
}

/** A letter's record can be replayed three times, and its replays stand one behind the other at the worst. */
const MOST_ROUNDS = 8;
/** Places at most that are looked at. */
const MOST_PLACES = 500;

/** A place on the log as a key. */
export function placeKey({ topic, partition, offset }: LogPosition): string {
  return `${partition}/${offset}/${topic}`;
}

/** A place on the log for a person. */
export function placeText({ topic, partition, offset }: LogPosition): string {
  return `${quote(topic)} partition ${partition} offset ${offset}`;
}

/**
 * Looks up what is known by the name and at the position, and follows the replays of the records there, forwards and
 * backwards, until nothing new is found.
 */
export async function collectFacts(
  db: Database,
  group: string,
  sought: SoughtOnLog,
  signal: AbortSignal,
): Promise<Facts> {
  const named = await factsByName(db, sought, signal);
  const facts: Facts = {
    stored: new Map(),
    repeats: new Map(),
    letters: new Map(),
    replays: new Map(),
    truncated: named.truncated,
  };
  const seen = new Set<string>();
  let next: LogPosition[] = [];
  const visit = (place: LogPosition): void => {
    if (seen.has(placeKey(place))) return;
    if (seen.size === MOST_PLACES) facts.truncated = true;
    else {
      seen.add(placeKey(place));
      next.push(place);
    }
  };
  const place = sought.position && placeKey(sought.position);
  const isNamed = ({ source, id }: EventIdentity): boolean => source === sought.source && id === sought.id;
  /** Where a log was made anew, others have had the position before. */
  const isThere = (at: LogPosition, recordedAt: bigint): boolean =>
    placeKey(at) === place && (sought.since === undefined || recordedAt >= sought.since);
  const add = ({ stored, repeats, letters }: Pick<typeof named, "stored" | "repeats" | "letters">): void => {
    for (const fact of stored) {
      const { event, position } = fact.event;
      if (!isNamed(event) && !isThere(position, fact.storedAt)) continue;
      facts.stored.set(placeKey(position), fact);
      visit(position);
    }
    for (const fact of repeats) {
      if (!isNamed(fact) && !isThere(fact.position, fact.recordedAt)) continue;
      facts.repeats.set(placeKey(fact.position), fact);
      visit(fact.position);
    }
    for (const fact of letters) {
      const { letter, event, recordedAt } = fact;
      // One without an event is met at the position, or by a replay.
      const isOwn = event === undefined ? placeKey(letter) !== place : isNamed(event);
      if (!isOwn && !isThere(letter, recordedAt)) continue;
      facts.letters.set(placeKey(letter), fact);
      visit(letter);
    }
  };
  if (sought.position !== undefined) visit(sought.position);
  add(named);
  const isOfName =
    place !== undefined && [facts.stored, facts.repeats, facts.letters].some((rows) => rows.has(place));
  for (let round = 0; next.length > 0; round += 1) {
    if (round === MOST_ROUNDS) {
      facts.truncated = true;
      break;
    }
    const places = next;
    next = [];
    const placed = await factsByPlace(db, group, places, signal);
    facts.truncated ||= placed.truncated;
    add(placed);
    for (const replay of placed.replays) {
      const touches = [replay.letter, replay.position].find((at) => placeKey(at) === place);
      if (touches !== undefined && !isOfName && !isThere(touches, replay.time)) continue;
      facts.replays.set(placeKey(replay.position), replay);
      visit(replay.letter);
      visit(replay.position);
    }
  }
  return facts;
}

/**
 * The time that tells the sought event from others of its name: the one asked for, else that of the record at the position,
 * else that of the event that was accepted first. undefined where there is none.
 *
 * @param onLog of the record that the log has at the position.
 */
export function keyOf(
  { stored, repeats, letters }: Facts,
  { time, position }: Sought,
  onLog: bigint | undefined,
): bigint | undefined {
  const place = position && placeKey(position);
  const there =
    place === undefined
      ? undefined
      : (stored.get(place)?.key ?? repeats.get(place)?.key ?? letters.get(place)?.key);
  const [first] = [...stored.values()].toSorted(
    ({ event: a }, { event: b }) =>
      a.acceptTime - b.acceptTime ||
      a.position.partition - b.position.partition ||
      Number(a.position.offset - b.position.offset),
  );
  const others = [...letters.values(), ...repeats.values()].flatMap(({ key }) => key ?? []);
  return time ?? there ?? onLog ?? first?.key ?? others.toSorted((a, b) => (a < b ? -1 : 1))[0];
}

/** The facts of the one event of the name that has this time, with those of its records that hold none. */
export function factsOf(facts: Facts, key: bigint | undefined, position: LogPosition | undefined): Facts {
  const own = new Set<string>(position && [placeKey(position)]);
  for (const rows of [facts.stored, facts.repeats, facts.letters])
    for (const [place, row] of rows) if (row.key === key && key !== undefined) own.add(place);
  // Replays lead from place to place: of any that is the event's, both ends are.
  for (let before = -1; before !== own.size;) {
    before = own.size;
    for (const [place, { letter }] of facts.replays) {
      if (own.has(place)) own.add(placeKey(letter));
      else if (own.has(placeKey(letter))) own.add(place);
    }
  }
  const ofEvent = <T extends { readonly key?: bigint | undefined }>(
    rows: ReadonlyMap<string, T>,
  ): Map<string, T> =>
    new Map([...rows].filter(([place, row]) => own.has(place) && (row.key === undefined || row.key === key)));
  return {
    stored: ofEvent(facts.stored),
    repeats: ofEvent(facts.repeats),
    letters: ofEvent(facts.letters),
    replays: new Map([...facts.replays].filter(([place]) => own.has(place))),
    truncated: facts.truncated,
  };
}

/** The times of other events of the name, oldest first. */
export function otherTimes({ stored, repeats, letters }: Facts, key: bigint | undefined): readonly bigint[] {
  const times = new Set<bigint>();
  for (const rows of [stored, repeats, letters])
    for (const row of rows.values()) if (row.key !== undefined && row.key !== key) times.add(row.key);
  return [...times].toSorted((a, b) => (a < b ? -1 : 1));
}
