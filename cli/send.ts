import { extname, join, parse } from "node:path";
import { parseArgs } from "node:util";

import { type PublishError, type Publisher } from "../sdk/index.ts";
import { connect, CONNECTION_HELP, CONNECTION_OPTIONS } from "./connection.ts";
import { openInput } from "./input.ts";
import { type Ledger, openLedger } from "./ledger.ts";
import { createOutageNotice, type OutageNotice } from "./outage.ts";
import { bar, count, rate, showProgress } from "./progress.ts";
import { type Format, type InputRecord, readRecords } from "./records.ts";
import { type Stop, stopOnSignals } from "./stop.ts";
import { UsageError } from "./usage-error.ts";

/** The command's help. */
export const SEND_HELP: string = `Usage: weir send FILE [options]

Sends the events of a file, or of standard input where FILE is "-".

  .ndjson, .jsonl    a CloudEvent in the JSON format on each line
  .csv               a row of attribute names (and "data"), then a row for each event; an empty cell is an
                     absent attribute

  --format FORMAT    ndjson or csv, where the name does not tell; ndjson by default
  --refused FILE     where what is refused goes, with the reason: a file that is not there yet. By default
                     FILE.refused.ndjson (stdin.refused.ndjson of what comes through a pipe), or the next free
                     name after it, such as FILE.refused-2.ndjson. It goes away where nothing was refused
${CONNECTION_HELP}
How far it has come is kept beside the file, in FILE.weir-send.json. When it was broken off, the same command goes
on there. Sending something twice does no harm: Weir stores the same source, id and time once.

Exit code: 0 every event was acknowledged; 1 some were refused; 2 it could not begin; 3 it was broken off.
`;

/** The codes of refusals that are for what the event is: INVALID_ARGUMENT and OUT_OF_RANGE. */
const EVENT_AT_FAULT: readonly number[] = [3, 11];
/** The reasons that are: the one for an event that is alone too large to be read, the other for what cannot be sent. */
const REASONS_OF_EVENTS: readonly string[] = ["MESSAGE_TOO_LARGE", "INVALID_ATTRIBUTES"];
/** So many records are held at most while the first of them waits for its outcome. */
const MAX_WAITING = 20_000;
const SAVE_EVERY_MS = 250;

/** `weir send`. Resolves with the exit code. */
export async function send(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { ...CONNECTION_OPTIONS, format: { type: "string" }, refused: { type: "string" } },
  });
  const [name, ...more] = positionals;
  if (name === undefined || more.length > 0) throw new UsageError("Name one FILE, or - for standard input.");
  const format = formatOf(name, values.format);
  const { url, weir } = connect(values);
  using input = await openInput(name);
  const state = input.size === undefined ? undefined : `${name}.weir-send.json`;
  using ledger = openLedger({
    state,
    refused: values.refused ?? refusedFileOf(state && name),
    isRefusedAskedFor: values.refused !== undefined,
    url,
  });

  using stop = stopOnSignals();
  const started = performance.now();
  const line = (): string => {
    const part = input.size === undefined ? "" : `${bar(ledger.position, input.size)}  `;
    return `${part}${told(ledger, performance.now() - started)}`;
  };
  const orStop = (act: () => void): void => {
    try {
      act();
    } catch (error) {
      stop.now(error as Error);
    }
  };
  const outage = createOutageNotice(process.stderr, url);
  const saving = setInterval(() => {
    orStop(ledger.save);
    outage.check(ledger.waiting > 0);
  }, SAVE_EVERY_MS);
  try {
    using _ = showProgress(process.stderr, line);
    await using publisher = weir.publisher({ signal: stop.signal });
    for await (const record of readRecords(input.read(stop.signal), format)) {
      if (stop.signal.aborted) break;
      await sendRecord(record, { ledger, publisher, stop, outage });
    }
  } catch (error) {
    // What the file system says, of the input or of what is written down.
    if (!isSystemError(error)) throw error;
    stop.now(error);
  } finally {
    clearInterval(saving);
  }

  if (stop.signal.aborted) orStop(ledger.save);
  else ledger.finish();
  process.stdout.write(`${told(ledger, performance.now() - started)}\n`);
  if (ledger.counts.refused > 0) process.stdout.write(`What was refused, and why: ${ledger.refused}\n`);
  if (!stop.signal.aborted) return ledger.counts.refused > 0 ? 1 : 0;
  const next =
    state === undefined
      ? "Send the whole input again: what Weir has already is stored once."
      : "The same command goes on from there.";
  process.stderr.write(`Broken off: ${(stop.signal.reason as Error).message}\n${next}\n`);
  return 3;
}

/** Hands one record in; resolves when the next may follow. */
async function sendRecord(
  record: InputRecord,
  to: {
    readonly ledger: Ledger;
    readonly publisher: Publisher;
    readonly stop: Stop;
    readonly outage: OutageNotice;
  },
): Promise<void> {
  const { ledger, publisher, stop, outage } = to;
  const entry = ledger.open(record);
  if (entry === undefined) return;
  const { event, violations } = record.parse();
  if (event === undefined) {
    const message = violations.map(({ field, description }) =>
      field === "" ? description : `${field}: ${description}`,
    );
    entry.refuse({ reason: violations[0]?.reason ?? "MALFORMED", message: message.join("; "), violations });
    return;
  }
  while (ledger.waiting > MAX_WAITING && !stop.signal.aborted) await ledger.first;
  await publisher.ready();
  publisher
    .publish(event)
    .then(
      () => {
        outage.heard();
        entry.acknowledge();
      },
      (error: PublishError) => {
        if (isEventAtFault(error)) {
          const { answer, reason, message } = error;
          const { violations = [] } = answer ?? {};
          entry.refuse({ reason, message: answer?.message ?? message, violations });
          return;
        }
        entry.leave();
        stop.now(error);
      },
    )
    .catch((error: unknown) => stop.now(error as Error));
}

function isEventAtFault({ answer, reason }: PublishError): boolean {
  return REASONS_OF_EVENTS.includes(reason) || (answer !== undefined && EVENT_AT_FAULT.includes(answer.code));
}

function told({ counts, before }: Ledger, ms: number): string {
  const { records, refused } = counts;
  const speed = rate(Math.max(0, records - before.records), ms);
  return `${count(records - refused)} events acknowledged, ${count(refused)} refused, ${speed}`;
}

function formatOf(name: string, asked: string | undefined): Format {
  if (asked === "ndjson" || asked === "csv") return asked;
  if (asked !== undefined) throw new UsageError(`--format: ${asked} is none; there are ndjson and csv.`);
  return extname(name).toLowerCase() === ".csv" ? "csv" : "ndjson";
}

/** Such as "in/orders.refused.ndjson" of "in/orders.csv". */
function refusedFileOf(name: string | undefined): string {
  if (name === undefined) return "stdin.refused.ndjson";
  const { dir, name: base } = parse(name);
  return join(dir, `${base}.refused.ndjson`);
}

function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && "syscall" in error;
}
