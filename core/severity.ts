import { type CloudEvent } from "./event.ts";

/** OpenTelemetry's names of severities, each of which has four numbers: TRACE 1 to 4, FATAL 21 to 24. */
export const SEVERITY_NAMES: readonly string[] = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"];
const NUMBER = /^(?:[1-9]|1[0-9]|2[0-4])$/;
const NAME = /^(TRACE|DEBUG|INFO|WARN|ERROR|FATAL)([2-4]?)$/i;

/**
 * How grave an event is, as OpenTelemetry's severity number, 1 to 24: the extension `severitynumber`, else
 * `severitytext` by its short names in any case (TRACE, TRACE2 … FATAL4). undefined where neither is recognised; a
 * strange value is kept in the event and means nothing here.
 */
export function severityOf(event: CloudEvent): number | undefined {
  const number = event.extensions.get("severitynumber");
  if (number !== undefined && NUMBER.test(number)) return Number(number);
  const match = NAME.exec(event.extensions.get("severitytext") ?? "");
  return match === null
    ? undefined
    : SEVERITY_NAMES.indexOf(match[1]!.toUpperCase()) * 4 + Number(match[2] || 1);
}
