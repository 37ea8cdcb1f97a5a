import { parseArgs } from "node:util";

import { weirErrorOf } from "../sdk/index.ts";
import { connectAdmin, CONNECTION_HELP, CONNECTION_OPTIONS } from "./connection.ts";
import { count } from "./progress.ts";
import { UsageError } from "./usage-error.ts";

/** What `weir audit --help` prints. */
export const AUDIT_HELP: string = `Usage: weir audit [options]

Holds the log against the store: every offset that the workers have passed must be a stored event, a duplicate, a dead
letter or a recorded skip. Prints a line for each partition, and every range of offsets that is none of them.

  --json             the same as JSON
  --timeout SECONDS  how long it may take; 600 if not given
${CONNECTION_HELP}
The token needs the scope admin.read. Ends with 0 where every offset is accounted for, 1 where one is not, 2 where the
command is wrong, 3 where the audit did not come to its end.
`;

/** What the server says of a partition; offsets are numbers of JSON, exact up to 2^53. */
interface PartitionAudit {
  readonly partition: number;
  readonly logStart: number;
  readonly logEnd: number;
  /** null where nothing of it was stored yet. */
  readonly highWater: number | null;
  readonly stored: number;
  readonly duplicates: number;
  readonly deadLetters: number;
  readonly skipped: number;
  readonly unaccounted: number;
  readonly unaccountedRanges: readonly { readonly from: number; readonly to: number }[];
}

const TIMEOUT_SECONDS = 600;

/** `weir audit`. Resolves with the exit code. */
export async function audit(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: { ...CONNECTION_OPTIONS, json: { type: "boolean" }, timeout: { type: "string" } },
  });
  const seconds = Number(values.timeout ?? TIMEOUT_SECONDS);
  if (!Number.isFinite(seconds) || seconds <= 0) throw new UsageError("--timeout: give a number of seconds.");
  const { url, admin } = connectAdmin(values);
  const partitions: PartitionAudit[] = [];
  const named = { group: "", topic: "" };
  try {
    for await (const each of admin.accounting.auditLog({}, { timeoutMs: seconds * 1_000 })) {
      Object.assign(named, { group: each.group, topic: each.topic });
      partitions.push({
        partition: each.partition,
        logStart: Number(each.logStart),
        logEnd: Number(each.logEnd),
        highWater: each.highWater === undefined ? null : Number(each.highWater),
        stored: Number(each.stored),
        duplicates: Number(each.duplicates),
        deadLetters: Number(each.deadLetters),
        skipped: Number(each.skipped),
        unaccounted: Number(each.unaccounted),
        unaccountedRanges: each.unaccountedRanges.map(({ from, to }) => ({
          from: Number(from),
          to: Number(to),
        })),
      });
    }
  } catch (error) {
    const known = weirErrorOf(error);
    if (known === undefined) throw error;
    process.stderr.write(`The audit at ${url} did not come to its end: ${known.message}\n`);
    return 3;
  }
  const unaccounted = partitions.reduce((sum, each) => sum + each.unaccounted, 0);
  const text = values.json
    ? `${JSON.stringify({ ...named, unaccounted, partitions }, undefined, 2)}\n`
    : told(named, partitions, unaccounted);
  process.stdout.write(text);
  return unaccounted === 0 ? 0 : 1;
}

const COLUMNS: readonly (readonly [title: string, of: (each: PartitionAudit) => string])[] = [
  ["partition", ({ partition }) => String(partition)],
  ["log start", ({ logStart }) => count(logStart)],
  ["log end", ({ logEnd }) => count(logEnd)],
  ["passed to", ({ highWater }) => (highWater === null ? "-" : count(highWater))],
  ["stored", ({ stored }) => count(stored)],
  ["duplicates", ({ duplicates }) => count(duplicates)],
  ["dead letters", ({ deadLetters }) => count(deadLetters)],
  ["skipped", ({ skipped }) => count(skipped)],
  ["unaccounted", ({ unaccounted }) => count(unaccounted)],
];

function told(
  { group, topic }: { readonly group: string; readonly topic: string },
  partitions: readonly PartitionAudit[],
  unaccounted: number,
): string {
  const rows = [
    COLUMNS.map(([title]) => title),
    ...partitions.map((each) => COLUMNS.map(([, of]) => of(each))),
  ];
  const widths = COLUMNS.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const table = rows.map((row) => row.map((cell, column) => cell.padStart(widths[column]!)).join("  "));
  const faults = partitions.flatMap((each) =>
    each.unaccountedRanges.map(
      ({ from, to }) => `partition ${each.partition}: offsets ${from} to ${to - 1} are unaccounted for`,
    ),
  );
  const verdict =
    unaccounted === 0
      ? "Every offset is accounted for."
      : `${count(unaccounted)} offsets are unaccounted for: events may be missing.`;
  return `${topic}, stored by ${group}\n\n${[...table, "", ...faults, verdict].join("\n")}\n`;
}
