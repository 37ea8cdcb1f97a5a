import { styleText } from "node:util";

import { attributeOf, type Event, Severity } from "../sdk/index.ts";

/** Events as the rows of a table. */
export interface EventTable {
  /** With the end of the line. */
  row(this: void, event: Event): string;
}

const TIME_WIDTH = 24;
const SEVERITY_WIDTH = 5;
/** What the two columns at the left take, with the spaces behind them. */
const LEFT_WIDTH = TIME_WIDTH + SEVERITY_WIDTH + 4;
const LEAST_WIDTH = 80;

/** By the number of Severity. */
const SEVERITY_NAMES = ["", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"];

type Style = Parameters<typeof styleText>[0];
const STYLES: Partial<Record<Severity, Style>> = {
  [Severity.TRACE]: "dim",
  [Severity.DEBUG]: "dim",
  [Severity.WARN]: "yellow",
  [Severity.ERROR]: "red",
  [Severity.FATAL]: ["red", "bold"],
};

/**
 * Rows of time, severity, type, source, subject and id, cut to the terminal's width; coloured by severity, unless NO_COLOR
 * is set.
 */
export function createEventTable(columns: number): EventTable {
  // The type and the source have most to say; the id is last, so that it is whole where there is room.
  const room = Math.max(columns, LEAST_WIDTH) - LEFT_WIDTH;
  const [type, source, subject] = [0.34, 0.24, 0.18].map((part) => Math.floor(room * part));
  return {
    row(event) {
      const { cloudEvent, severity } = event;
      const cells = [
        fit(cloudEvent?.type ?? "", type!),
        fit(cloudEvent?.source ?? "", source!),
        fit(attributeOf(cloudEvent, "subject") ?? "", subject!),
      ];
      const rest = room - type! - source! - subject! - 6;
      const level = fit(SEVERITY_NAMES[severity] ?? "", SEVERITY_WIDTH);
      const style = STYLES[severity];
      const time = fit(timeOf(event), TIME_WIDTH);
      const row = [
        styleText("dim", time),
        style === undefined ? level : styleText(style, level),
        ...cells,
        styleText("dim", cut(cloudEvent?.id ?? "", rest)),
      ];
      return `${row.join("  ")}\n`;
    },
  };
}

/** To the millisecond, in UTC; of an event without time: when it was received. */
function timeOf({ cloudEvent, receiveTime }: Event): string {
  const attr = cloudEvent?.attributes["time"]?.attr;
  const { seconds, nanos } =
    attr?.case === "ceTimestamp" ? attr.value : { seconds: 0n, nanos: 0, ...receiveTime };
  return new Date(Number(seconds) * 1_000 + Math.floor(nanos / 1_000_000)).toISOString();
}

function fit(text: string, width: number): string {
  return cut(text, width).padEnd(width);
}

function cut(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`;
}
