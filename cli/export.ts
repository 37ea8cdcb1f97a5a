import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

import { type WeirClient, weirErrorOf } from "../sdk/index.ts";
import { connect, CONNECTION_HELP, CONNECTION_OPTIONS } from "./connection.ts";
import { type Output, openOutput } from "./output.ts";
import { count, rate, showProgress } from "./progress.ts";
import { failed, oneFilter, toLine } from "./search.ts";
import { stopOnSignals } from "./stop.ts";

/** What `weir export --help` prints. */
export const EXPORT_HELP: string = `Usage: weir export [FILTER] [options] > FILE.jsonl

Writes the stored events that match, with their data, as CloudEvents in the JSON format, one on each line: what
\`weir send\` takes. FILTER is one argument, such as 'type = "com.acme.order.*" time >= now-7d'; docs/filter.md has the
language. Without it: all events.

  --oldest           the oldest first; else the newest
  --resume TOKEN     goes on where an export was broken off, with the same FILTER and order
${CONNECTION_HELP}
Where the connection breaks, it goes on by itself. When it cannot, it says with which token the export goes on:
\`>> FILE.jsonl\` then adds what is missing, each event once.

The token needs the scope events.read. Exit code: 0 all was written; 2 the command or its filter is wrong; 3 it was
broken off.
`;

/** So often the export is tried again without having got on, with pauses that double from the first on. */
const MAX_TRIES = 6;
const FIRST_PAUSE_MS = 250;
/** gRPC's codes of what may pass: CANCELLED, UNKNOWN, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, ABORTED, INTERNAL, UNAVAILABLE. */
const MAY_PASS: readonly number[] = [1, 2, 4, 8, 10, 13, 14];

/** `weir export`. Resolves with the exit code. */
export async function exportEvents(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { ...CONNECTION_OPTIONS, oldest: { type: "boolean" }, resume: { type: "string" } },
  });
  const filter = oneFilter(positionals);
  const { url, weir } = connect(values);
  const output = openOutput();
  using stop = stopOnSignals();
  const orderBy = values.oldest ? "time" : "time desc";
  const place = { filter, orderBy, pageToken: values.resume ?? "" };
  const started = performance.now();
  let written = 0;
  let error: unknown;
  {
    const line = (): string =>
      `${count(written)} events written, ${rate(written, performance.now() - started)}`;
    using _ = showProgress(process.stderr, line);
    error = await copy(
      { weir, output, place, signal: AbortSignal.any([stop.signal, output.closed]) },
      (events) => {
        written += events;
      },
    );
  }
  if (output.closed.aborted) return 3;
  if (error === undefined) {
    if (process.stderr.isTTY) process.stderr.write(`${count(written)} events written.\n`);
    return 0;
  }
  const code = stop.signal.aborted ? 3 : failed(error, `The export at ${url}`);
  if (place.pageToken !== "") {
    process.stderr.write(
      `Broken off after ${count(written)} events. To go on: the same command with --resume ${place.pageToken} >> FILE\n`,
    );
  }
  return code;
}

interface Copy {
  readonly weir: WeirClient;
  readonly output: Output;
  /** The token moves on as events are written. */
  readonly place: { readonly filter: string; readonly orderBy: string; pageToken: string };
  readonly signal: AbortSignal;
}

/** Writes events until there are no more, over broken connections; resolves with what ended it before. */
async function copy(
  { weir, output, place, signal }: Copy,
  onWritten: (events: number) => void,
): Promise<unknown> {
  for (let tries = 0; ;) {
    try {
      // The server bounds a stream's life; when that ends, it is opened again.
      for await (const { events, nextPageToken } of weir.search.exportEvents(place, {
        signal,
        timeoutMs: 0,
      })) {
        await output.write(events.map(toLine).join(""));
        if (output.closed.aborted) return signal.reason;
        place.pageToken = nextPageToken;
        onWritten(events.length);
        tries = 0;
      }
      return undefined;
    } catch (error) {
      tries += 1;
      const code = weirErrorOf(error)?.code;
      if (signal.aborted || code === undefined || !MAY_PASS.includes(code) || tries >= MAX_TRIES)
        return error;
      const least = weirErrorOf(error)?.retryAfterMs ?? 0;
      await sleep(Math.max(least, FIRST_PAUSE_MS * 2 ** tries), undefined, { signal }).catch(() => {});
    }
  }
}
