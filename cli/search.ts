import { parseArgs } from "node:util";

import { type Event, formatCloudEvent, Summary, type Total, weirErrorOf } from "../sdk/index.ts";
import { connect, CONNECTION_HELP, CONNECTION_OPTIONS } from "./connection.ts";
import { createEventTable } from "./event-table.ts";
import { type Output, openOutput } from "./output.ts";
import { count } from "./progress.ts";
import { UsageError } from "./usage-error.ts";

/** What `weir search --help` prints. */
export const SEARCH_HELP: string = `Usage: weir search [FILTER] [options]

Finds stored events, the newest first, without their data. FILTER is one argument, such as
'severity >= ERROR time >= now-1h'; docs/filter.md has the language. Without it: all events.

On a terminal there is a table, and how many events match in all. Else each line is an event as a CloudEvent in the JSON
format; with its data \`weir export\` has it.

  --limit N          how many events at most; 50 if not given
  --oldest           the oldest first
  --json             lines of JSON on a terminal too
${CONNECTION_HELP}
The token needs the scope events.read. Exit code: 0 whether anything was found or not; 2 the command or its filter is
wrong; 3 the search did not come to its end.
`;

const DEFAULT_LIMIT = 50;
const MAX_PAGE = 500;
/** gRPC's INVALID_ARGUMENT. */
const INVALID_ARGUMENT = 3;

/** `weir search`. Resolves with the exit code. */
export async function search(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      ...CONNECTION_OPTIONS,
      limit: { type: "string" },
      oldest: { type: "boolean" },
      json: { type: "boolean" },
    },
  });
  const filter = oneFilter(positionals);
  const limit = Number(values.limit ?? DEFAULT_LIMIT);
  if (!Number.isSafeInteger(limit) || limit < 1) throw new UsageError("--limit: give a number from 1 on.");
  const { url, weir } = connect(values);
  const output = openOutput();
  const isTable = output.isTerminal && values.json !== true;
  const table = isTable ? createEventTable(process.stdout.columns) : undefined;
  const asked = { filter, orderBy: values.oldest ? "time" : "time desc" };
  let [pageToken, left] = ["", limit];
  let total: Total | undefined;
  try {
    do {
      const summaries = [isTable && pageToken === "" ? Summary.TOTAL : Summary.NONE];
      const pageSize = Math.min(left, MAX_PAGE);
      const page = await weir.search.searchEvents({ ...asked, pageSize, pageToken, summaries });
      total ??= page.total;
      await write(output, page.events, table?.row ?? toLine);
      left -= page.events.length;
      pageToken = page.nextPageToken;
    } while (pageToken !== "" && left > 0 && !output.closed.aborted);
  } catch (error) {
    return failed(error, `The search at ${url}`);
  }
  if (isTable) await output.write(`${footer(limit - left, total)}\n`);
  return 0;
}

/** The one filter that a command is given; "" where there is none. Throws a UsageError where there are several. */
export function oneFilter([filter = "", ...more]: readonly string[]): string {
  if (more.length > 0) {
    throw new UsageError(
      "Give one filter, in quotes: weir search 'type = \"com.acme.order.*\" time >= now-1h'",
    );
  }
  return filter;
}

/** Says on standard error why a call failed; gives the exit code. Throws what is no failure of a call. */
export function failed(error: unknown, what: string): number {
  const known = weirErrorOf(error);
  if (known === undefined) throw error;
  const lines =
    known.violations.length > 0
      ? known.violations.map(({ field, description }) => `  ${field}: ${description}\n`).join("")
      : `  ${known.message}\n`;
  process.stderr.write(`${what} failed:\n${lines}`);
  return known.code === INVALID_ARGUMENT ? 2 : 3;
}

async function write(
  output: Output,
  events: readonly Event[],
  lineOf: (event: Event) => string,
): Promise<void> {
  if (events.length > 0) await output.write(events.map(lineOf).join(""));
}

function footer(shown: number, total: Total | undefined): string {
  if (total === undefined)
    return `${count(shown)} events are shown; how many match in all could not be counted in time.`;
  const all = total.capped ? "more than 10,000" : count(Number(total.count));
  return shown === 0 ? "No event matches." : `${count(shown)} of ${all} events.`;
}

/** The event as a line of CloudEvents' JSON format. */
export function toLine({ cloudEvent }: Event): string {
  return cloudEvent === undefined ? "" : `${formatCloudEvent(cloudEvent)}\n`;
}
