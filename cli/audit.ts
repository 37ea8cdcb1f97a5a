import { parseArgs } from "node:util";

import { weirErrorOf } from "../sdk/index.ts";
import { connectAdmin, CONNECTION_HELP, CONNECTION_OPTIONS } from "./connection.ts";
import { count } from "./progress.ts";
import { UsageError } from "./usage-error.ts";

/** What `weir audit --help` prints. */
export const AUDIT_HELP: string = `Usage: weir audit [options]

Holds the log against the store: every offset that the workers have passed must be a stored event, a duplicate, a dead
letter or a recorded skip. Prints a line for each partition, every range of offsets that is none of them, every range that
the store says two things of, and every partition whose log could not be held against the store.

  --json             the same as JSON
  --timeout SECONDS  how long it may take; 600 if not given
${CONNECTION_HELP}
The token needs the scope admin.read. Ends with 0 where every offset is accounted for, 1 where one is not or that cannot be
said (a partition without a checkpoint, another log, a contradiction), 2 where the command is wrong, 3 where the audit did
not come to its end.
`;

/** What the server says of a partition; offsets are numbers of JSON, exact up to 2^53. */
interface PartitionAudit {
  readonly partition: number;
  readonly logStart: number;
  readonly logEnd: number;
  /** null where nothing of it was audited: it has no checkpoint, nothing of it was stored yet, or it is another log. */
  readonly highWater: number | null;
  readonly stored: number;
  readonly duplicates: number;
  readonly deadLetters: number;
  readonly skipped: number;
  readonly unaccounted: number;
  readonly unaccountedRanges: readonly OffsetRange[];
  readonly anotherLog: boolean;
  readonly contradicted: number;
  readonly contradictedRanges: readonly OffsetRange[];
  readonly unchecked: number;
}

/** "to" is one past the last. */
interface OffsetRange {
  readonly from: number;
  readonly to: number;
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
        unaccountedRanges: each.unaccountedRanges.map(toRange),
        anotherLog: each.anotherLog,
        contradicted: Number(each.contradicted),
        contradictedRanges: each.contradictedRanges.map(toRange),
        unchecked: Number(each.unchecked),
      });
    }
  } catch (error) {
    const known = weirErrorOf(error);
    if (known === undefined) throw error;
    process.stderr.write(`The audit at ${url} did not come to its end: ${known.message}\n`);
    return 3;
  }
  const unaccounted = partitions.reduce((sum, each) => sum + each.unaccounted, 0);
  const doubts = partitions.flatMap(doubtsOf);
  const text = values.json
    ? `${JSON.stringify({ ...named, unaccounted, doubts, partitions }, undefined, 2)}\n`
    : told(named, partitions, unaccounted, doubts);
  process.stdout.write(text);
  return unaccounted === 0 && doubts.length === 0 ? 0 : 1;
}

function toRange({ from, to }: { readonly from: bigint; readonly to: bigint }): OffsetRange {
  return { from: Number(from), to: Number(to) };
}

/** Why it cannot be said of a partition that all of it is accounted for, though no offset is known to be missing. */
function doubtsOf(each: PartitionAudit): string[] {
  const { partition, logStart, logEnd, highWater } = each;
  if (each.anotherLog)
    return [
      `partition ${partition}: not audited: this is not the log that was read; /readyz of the workers says what to do`,
    ];
  if (highWater === null && logEnd > logStart)
    return [
      `partition ${partition}: not audited: the group has no checkpoint, or has stored nothing of it yet`,
    ];
  const beyond =
    highWater !== null && highWater > logEnd
      ? [`partition ${partition}: the log ends at ${logEnd}, and offsets up to ${highWater} were passed`]
      : [];
  const contradicted = each.contradictedRanges.map(
    ({ from, to }) =>
      `partition ${partition}: offsets ${from} to ${to - 1} are recorded as skipped, and as records as well`,
  );
  return [...beyond, ...contradicted];
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
  doubts: readonly string[],
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
  const unchecked = partitions
    .filter((each) => each.unchecked > 0)
    .map(
      (each) =>
        `partition ${each.partition}: ${count(each.unchecked)} skipped offsets were not looked at on the log`,
    );
  const verdict =
    unaccounted > 0
      ? `${count(unaccounted)} offsets are unaccounted for: events may be missing.`
      : doubts.length > 0
        ? "It cannot be said that every offset is accounted for."
        : "Every offset is accounted for.";
  const lines = [...table, "", ...faults, ...doubts, ...unchecked, verdict];
  return `${topic}, stored by ${group}\n\n${lines.join("\n")}\n`;
}
