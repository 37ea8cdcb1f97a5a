import { type DeadLetter, decodeDeadLetter, deadLetterId } from "#core/dead-letter.ts";
import {
  type DeadLetterIdentity,
  formatDeadLetterName,
  parseDeadLetterName,
} from "#core/dead-letter-name.ts";
import { holdsRecord, type ReplayOwner } from "#core/replay.ts";
import { encodeUtf8 } from "#core/utf8.ts";
import { type Admin, type ReceivedRecord } from "#kafka/ports.ts";
import { decodeRecord, principalOf } from "#kafka/record.ts";
import { type Topic } from "#kafka/topics.ts";
import { type SetAsideRecord } from "#postgres/accounting.ts";
import { findLetters } from "#postgres/dead-letters.ts";
import { type Database } from "#postgres/pool.ts";
import {
  type Corrections,
  filterPassed,
  findScan,
  type ForeignRecord,
  forgetForeign,
  type LetterScan,
  saveCorrections,
} from "#postgres/reconciliation.ts";
import { type Logger } from "#runtime/log.ts";
import { type Telemetry } from "#runtime/telemetry.ts";

/** What putting the index of the dead letters right needs. */
export interface ReconcileOptions {
  readonly db: Database;
  readonly admin: Pick<Admin, "logRanges" | "readFrom">;
  /** The dead-letter topic. */
  readonly letters: Pick<Topic, "name">;
  /** Whose letters are in the index; all others are foreign. */
  readonly owner: Pick<ReplayOwner, "group" | "topic" | "partitions">;
  readonly telemetry: Telemetry;
  readonly log: Logger;
}

/** Puts the index right by the next portion of each partition of the dead-letter topic. */
export type Reconcile = (now: Date, signal: AbortSignal) => Promise<void>;

/** What one round reads of a partition: so many fetches of 1 MiB, or of one record batch. */
const FETCHES = 10;
const FETCH_BYTES = 1_048_576;
/** A partition is read from its start anew when that was so long ago, in milliseconds. */
const PASS_MS = 24 * 3_600_000;

/** A letter of Weir's, with where it stands. */
interface Found extends DeadLetterIdentity {
  readonly record: ReceivedRecord;
  readonly letter: DeadLetter;
}

/**
 * Reconciles the index with the dead-letter topic, which is the truth: a letter without a row gets one, a row that names an
 * earlier copy names the later, and what is no letter of Weir's is listed as foreign. It reads on from where it was, which
 * PostgreSQL keeps, and each day the whole topic again. So it makes a database that was restored right, too. Several
 * processes may do it at once.
 */
export function createReconcile({ db, admin, letters, owner, telemetry, log }: ReconcileOptions): Reconcile {
  const topic = letters.name;
  return async (now, signal) => {
    const ranges = await admin.logRanges(topic);
    for (const [partition, { start, end }] of ranges) {
      const at = { topic, partition };
      await forgetForeign(db, at, start);
      let before = await findScan(db, at);
      let scan = beginOf(before, { start, end }, now);
      for (let fetches = 0; fetches < FETCHES && scan.next < end && !signal.aborted; fetches += 1) {
        const fetched = await admin.readFrom(at, scan.next, FETCH_BYTES);
        // There is more, and it is not to be had: somebody's transaction is open. It stays where it is until that ends.
        if (fetched === undefined) {
          log.warn("The dead-letter topic cannot be read on: a transaction in it is open", {
            topic,
            partition,
            offset: scan.next,
          });
          break;
        }
        const { next } = fetched;
        const corrections = await judge(fetched.records);
        const after: LetterScan = { next, beganAt: scan.beganAt };
        if (!(await saveCorrections(db, { ...at, before, after }, corrections.found))) break;
        corrections.count();
        before = scan = after;
      }
    }
  };

  async function judge(
    records: readonly ReceivedRecord[],
  ): Promise<{ readonly found: Corrections; count(): void }> {
    const [found, foreign] = sort(records, owner);
    const names = new Map(found.map((each) => [formatDeadLetterName(each), each]));
    const rows = new Map(
      (await findLetters(db, [...names.values()])).map((row) => [formatDeadLetterName(row), row]),
    );
    // The row that a worker wrote is what is right, not who else wrote under its name.
    const [own, forged] = [true, false].map((wanted) =>
      found.filter((each) => {
        const row = rows.get(formatDeadLetterName(each));
        return (row === undefined || holdsRecord(each.letter, row)) === wanted;
      }),
    );
    for (const { record } of forged!)
      foreign.push({ ...record, why: "It has the name of a dead letter whose record is another." });
    // Of two copies in one portion the later counts.
    const latest = new Map(own!.map((each) => [formatDeadLetterName(each), each]));
    const unknown = [...latest.values()].filter((each) => !rows.has(formatDeadLetterName(each)));
    const restored = await filterPassed(db, unknown);
    const moved = [...latest].flatMap(([name, each]) => {
      const row = rows.get(name);
      const place = row?.letterPosition;
      const isLater =
        place?.topic !== topic ||
        (place.partition === each.record.partition && place.offset < each.record.offset);
      return row !== undefined && isLater ? [each] : [];
    });
    return {
      found: {
        letters: [...restored, ...moved].map((each) => ({ group: each.group, record: toSetAside(each) })),
        foreign,
      },
      count() {
        telemetry.count("weir.dead_letters.reconciled", { outcome: "restored" }, restored.length);
        telemetry.count("weir.dead_letters.reconciled", { outcome: "moved" }, moved.length);
        telemetry.count("weir.dead_letters.reconciled", { outcome: "foreign" }, foreign.length);
        if (restored.length + moved.length === 0) return;
        log.warn("The index of the dead letters was put right by their topic", {
          topic,
          restored: restored.length,
          moved: moved.length,
        });
      },
    };
  }
}

/** Where a partition is to be read from. */
function beginOf(
  scan: LetterScan | undefined,
  { start, end }: { readonly start: bigint; readonly end: bigint },
  now: Date,
): LetterScan {
  const isOver = scan !== undefined && scan.next >= end && now.getTime() - scan.beganAt.getTime() >= PASS_MS;
  // Beyond the end: it is not the log that was read before.
  if (scan === undefined || isOver || scan.next > end) return { next: start, beganAt: now };
  return scan.next < start ? { next: start, beganAt: scan.beganAt } : scan;
}

function sort(
  records: readonly ReceivedRecord[],
  owner: ReconcileOptions["owner"],
): readonly [Found[], ForeignRecord[]] {
  const found: Found[] = [];
  const foreign: ForeignRecord[] = [];
  for (const record of records) {
    const letter = readOwn(record, owner);
    if (typeof letter === "string") foreign.push({ ...record, why: letter });
    else found.push({ group: letter.group, ...letter.position, record, letter });
  }
  return [found, foreign];
}

const MAX_ATTEMPT = 2 ** 31 - 1;
/** Of a group and a topic, as Kafka has it. */
const MAX_NAME = 249;

/** The letter of a record, or why it is none of Weir's: what could not be in the index is none either. */
function readOwn({ key, value }: ReceivedRecord, owner: ReconcileOptions["owner"]): DeadLetter | string {
  if (value === null) return "It has no value.";
  const decoded = decodeDeadLetter(value);
  if (!decoded.ok)
    return `It is no dead letter: ${decoded.faults.map(({ description }) => description).join(" ")}`;
  const { group, position, attempt } = decoded.value;
  const id = Buffer.from(encodeUtf8(deadLetterId(group, position)));
  if (key === null || !id.equals(key)) return "Its key is not that of the letter that it holds.";
  const isNamed = parseDeadLetterName(formatDeadLetterName({ group, ...position })).ok && group !== "";
  if (
    !isNamed ||
    group.length > MAX_NAME ||
    position.topic.length > MAX_NAME ||
    attempt < 0 ||
    attempt > MAX_ATTEMPT
  )
    return "It names a record that no log can have.";
  if (group !== owner.group || position.topic !== owner.topic || position.partition >= owner.partitions)
    return (
      `It is a dead letter of group ${group} for ${position.topic} partition ${position.partition}; those of this installation ` +
      `are of group ${owner.group} for ${owner.topic}, which has ${owner.partitions} partitions.`
    );
  return decoded.value;
}

function toSetAside({ letter, record: at }: Found): SetAsideRecord {
  const { position, reason, detail, attempt, timestamp, key, value, headers, time } = letter;
  const record: ReceivedRecord = { ...position, key, value, headers, timestamp };
  const decoded = decodeRecord(record);
  const { topic, partition, offset } = at;
  return {
    position,
    reason,
    detail,
    time: time.seconds * 1_000 + Math.floor(time.nanos / 1_000_000),
    recordTime: timestamp,
    attempt,
    value,
    event: decoded.ok ? decoded.value.event : undefined,
    principal: principalOf(record),
    letter: { topic, partition, offset },
  };
}
