import { parseArgs, styleText } from "node:util";

import {
  formatEventName,
  type GetEventJourneyResponse,
  type InFlight,
  type LogPosition,
  type Station,
  weirErrorOf,
} from "../sdk/index.ts";
import { connect, CONNECTION_HELP, CONNECTION_OPTIONS } from "./connection.ts";
import { openOutput } from "./output.ts";
import { count } from "./progress.ts";
import { failed } from "./search.ts";
import { UsageError } from "./usage-error.ts";

/** What `weir where --help` prints. */
export const WHERE_HELP: string = `Usage: weir where NAME [options]
       weir where SOURCE ID [options]

Tells where an event is and how it came there: accepted, stored, repeated, set aside, replayed, passed over, in flight.
NAME is events/{source}:{id}, as receipts and searches have it; SOURCE and ID are the event's own.

On a terminal there is a line for each station. Else each line is JSON: {"time", "position", "accepted": {…}} and so on for
each station, then {"inFlight"}, {"truncated"}, {"unknown"}, {"otherTime"}, where there are any.

  --at POSITION      where the event stands on the log, from its receipt: TOPIC/PARTITION/OFFSET. With it an event is
                     found that is still to be consumed
  --time TIME        which one, where several have the name: a time of RFC 3339, to the millisecond
  --json             lines of JSON on a terminal too
${CONNECTION_HELP}
The token needs the scope events.read. Exit code: 0 something is known of it; 1 nothing is; 2 the command is wrong; 3 it
could not be found out.
`;

/** gRPC's NOT_FOUND. */
const NOT_FOUND = 5;

/** `weir where`. Resolves with the exit code. */
export async function where(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      ...CONNECTION_OPTIONS,
      at: { type: "string" },
      time: { type: "string" },
      json: { type: "boolean" },
    },
  });
  const name = nameOf(positionals);
  const asked = { name, ...positionOf(values.at), ...timeOf(values.time) };
  const { url, weir } = connect(values);
  const output = openOutput();
  try {
    const journey = await weir.search.getEventJourney(asked);
    const isText = output.isTerminal && values.json !== true;
    await output.write(isText ? describeJourney(journey) : journeyAsJson(journey));
    return 0;
  } catch (error) {
    const known = weirErrorOf(error);
    if (known?.code !== NOT_FOUND) return failed(error, `The question at ${url}`);
    process.stderr.write(`${known.message}\n`);
    return 1;
  }
}

function nameOf([first, second, ...more]: readonly string[]): string {
  if (first === undefined || more.length > 0)
    throw new UsageError("Give the event's name, or its source and its id.");
  return second === undefined ? first : formatEventName(first, second);
}

function positionOf(text: string | undefined): {
  position?: { topic: string; partition: number; offset: bigint };
} {
  if (text === undefined) return {};
  const [, topic, partition, offset] = /^(.+)\/(\d{1,10})\/(\d{1,19})$/.exec(text) ?? [];
  if (topic === undefined) throw new UsageError("--at: give TOPIC/PARTITION/OFFSET.");
  return { position: { topic, partition: Number(partition), offset: BigInt(offset!) } };
}

function timeOf(text: string | undefined): { time?: { seconds: bigint; nanos: number } } {
  if (text === undefined) return {};
  const millis = Date.parse(text);
  if (Number.isNaN(millis)) throw new UsageError("--time: give a time such as 2026-11-01T09:30:00Z.");
  const seconds = Math.floor(millis / 1_000);
  return { time: { seconds: BigInt(seconds), nanos: (millis - seconds * 1_000) * 1_000_000 } };
}

/** A journey for people to read: a line for each station, with the end of the line. */
export function describeJourney(journey: GetEventJourneyResponse): string {
  const { stations, inFlight, otherTimes, truncated, unknown } = journey;
  const lines = [
    ...stations.map(stationLine),
    ...inFlight.map(inFlightLine),
    ...(truncated ? ["There is more of it than is shown."] : []),
    ...unknown.map((sentence) => `Not known: ${sentence}`),
    ...otherTimes.map(
      (time) => `Another event has this name, of the time ${instant(time)}: --time tells of it.`,
    ),
  ];
  return lines.map((line) => `${line}\n`).join("");
}

/** A journey for programs to read: an object of JSON on each line, with the end of the line. */
export function journeyAsJson(journey: GetEventJourneyResponse): string {
  const { stations, inFlight, otherTimes, truncated, unknown } = journey;
  const objects = [
    ...stations.map(({ time, position, station }) => ({
      ...(time && { time: instant(time) }),
      position,
      ...(station.case !== undefined && { [station.case]: station.value }),
    })),
    ...inFlight.map((each) => ({ inFlight: each })),
    ...(truncated ? [{ truncated }] : []),
    ...unknown.map((sentence) => ({ unknown: sentence })),
    ...otherTimes.map((time) => ({ otherTime: instant(time) })),
  ];
  return objects.map((object) => `${JSON.stringify(object, jsonValue)}\n`).join("");
}

/** What a message has for itself, such as its type's name, is nobody's business. */
function jsonValue(name: string, value: unknown): unknown {
  if (name.startsWith("$")) return undefined;
  return typeof value === "bigint" ? String(value) : value;
}

function stationLine({ time, position, station }: Station): string {
  const when = styleText("dim", time === undefined ? "at a time unknown".padEnd(24) : instant(time));
  const place = position === undefined ? "" : ` ${styleText("dim", placeOf(position))}`;
  return `${when}  ${happened(station)}${place}`;
}

function happened(station: Station["station"]): string {
  switch (station.case) {
    case "accepted":
      return `accepted${by(station.value.principal)}`;
    case "stored":
      return styleText("green", "stored");
    case "duplicate":
      return station.value.differs
        ? styleText("yellow", "came again and differs: not stored")
        : "came again, the same";
    case "deadLettered": {
      const { reason, detail, attempt, deadLetter } = station.value;
      const again = attempt === 0 ? "" : ` after replay ${attempt}`;
      return `${styleText("red", `set aside${again}`)}: ${reason}, ${detail} (${deadLetter})`;
    }
    case "replayed": {
      const { principal, cause } = station.value;
      return `replayed${by(principal)}${cause === "" ? "" : ` in ${cause}`}`;
    }
    case "skipped":
      return styleText("yellow", `passed over: ${station.value.kind}`);
    case undefined:
      return "something that this version does not know";
  }
}

function inFlightLine({ position, highWater, logEnd }: InFlight): string {
  const place = position === undefined ? "" : ` ${placeOf(position)}`;
  const before =
    position === undefined || highWater === undefined
      ? ""
      : `; ${count(Number(position.offset - highWater))} to be consumed before it`;
  const lag =
    logEnd === undefined || highWater === undefined
      ? ""
      : `, ${count(Number(logEnd - highWater))} in its partition in all`;
  return styleText("cyan", `in flight${place}${before}${lag}`);
}

function by(principal: string): string {
  return principal === "" ? "" : ` by ${principal}`;
}

function placeOf({ topic, partition, offset }: LogPosition): string {
  return `${topic}/${partition}/${offset}`;
}

function instant({ seconds, nanos }: NonNullable<Station["time"]>): string {
  return new Date(Number(seconds) * 1_000 + Math.floor(nanos / 1_000_000)).toISOString();
}
