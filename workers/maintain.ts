import { setTimeout as sleep } from "node:timers/promises";

import { countDefaultRows, countMonthsAhead, ensurePartitions } from "#postgres/partitions.ts";
import { type NumberPath } from "#postgres/number-paths.ts";
import { type Database } from "#postgres/pool.ts";
import { type Age, before, countDetached, deleteDuplicates, retirePartitions } from "#postgres/retention.ts";
import { type Logger } from "#runtime/log.ts";
import { type Telemetry } from "#runtime/telemetry.ts";

import { createNumberIndexes } from "./number-indexes.ts";
import { type Reconcile } from "./reconcile.ts";
import { type Role } from "./role.ts";
import { createRollUp } from "./roll-up.ts";

/** How long events stay. */
export interface Retention {
  readonly age: Age;
  /** Drop the partitions that it detaches. */
  readonly drop: boolean;
  /** How long the topic of the events keeps a record, in milliseconds: what may be on the log still stays. */
  readonly logMs: number;
}

/** What the maintain role needs. */
export interface MaintainOptions {
  readonly db: Database;
  readonly telemetry: Telemetry;
  readonly log: Logger;
  /** Without it events stay for ever. */
  readonly retention?: Retention | undefined;
  /** The paths into payloads whose numbers have an index, and where these are made, whose statements may take an hour. */
  readonly numbers?: { readonly db: Database; readonly paths: readonly NumberPath[] };
  /** Puts the index of the dead letters right, each round by a portion. */
  readonly reconcile?: Reconcile;
  /** The clock that partitions are made by; the real one by default. */
  readonly now?: () => Date;
  /** The pause between two rounds, in milliseconds; a minute by default. */
  readonly intervalMs?: number;
  /** How old the sums by hour grow before what was stored is added to them, in milliseconds; two seconds by default. */
  readonly rollUpMs?: number;
}

/** A duty, done again after a while; a round later where it failed. */
interface Duty {
  readonly what: string;
  readonly everyMs: number;
  run(now: Date, signal: AbortSignal): Promise<void>;
}

const ROLL_UP_MS = 2_000;
const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

/**
 * Keeps the tables: makes the monthly partitions of the events table ahead and takes out those that retention is over for,
 * at once and then daily; and in every round puts a portion of the index of the dead letters right and counts the rows of
 * the default partition, where none should be. Beside the rounds it keeps the sums by hour and the indexes of numbers. Several
 * processes may have the role: advisory locks keep them apart, and what one has done the others find.
 */
export function createMaintain(options: MaintainOptions): Role {
  const { db, telemetry, log, numbers, now = () => new Date() } = options;
  const { intervalMs = MINUTE_MS, rollUpMs = ROLL_UP_MS } = options;
  const rollUp = createRollUp({ db, telemetry, log, intervalMs: rollUpMs });
  const numberIndexes = numbers && createNumberIndexes({ ...numbers, log, intervalMs });
  let fault: string | undefined = "the partitions were not looked at yet";
  let seen:
    | { readonly defaultRows: number; readonly monthsAhead: number; readonly detached: number }
    | undefined;
  const { reconcile } = options;
  // Last what waits for Kafka, which may be away.
  const duties: readonly Duty[] = [
    ...dutiesOf(options),
    { what: "counting rows", everyMs: 0, run: count },
    ...(reconcile === undefined ? [] : [{ what: "reconciling dead letters", everyMs: 0, run: reconcile }]),
  ];
  const doneAt = new Map<Duty, number>();

  async function count(time: Date): Promise<void> {
    try {
      const [defaultRows, monthsAhead, detached] = [
        await countDefaultRows(db),
        await countMonthsAhead(db, time),
        await countDetached(db),
      ];
      if (defaultRows > 0 && defaultRows !== seen?.defaultRows) {
        log.error("Rows are in the default partition: the partition of their month was missing", {
          rows: defaultRows,
        });
      }
      seen = { defaultRows, monthsAhead, detached };
    } catch (error) {
      // What is not known is not shown.
      seen = undefined;
      throw error;
    }
  }

  /** Does what is due, each duty whatever became of the others; answers what failed. */
  async function round(signal: AbortSignal): Promise<string | undefined> {
    const time = now();
    const failures: string[] = [];
    for (const duty of duties) {
      const last = doneAt.get(duty);
      if (signal.aborted || (last !== undefined && time.getTime() - last < duty.everyMs)) continue;
      try {
        await duty.run(time, signal);
        doneAt.set(duty, time.getTime());
      } catch (error) {
        failures.push(`${duty.what}: ${error instanceof Error ? error.message : String(error)}`);
        log.warn("Maintenance failed and is tried again", { what: duty.what, error, inMs: intervalMs });
      }
    }
    return failures.length === 0 ? undefined : failures.join("; ");
  }

  async function runRounds(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const failures = await round(signal);
      if (!signal.aborted) fault = failures;
      await sleep(intervalMs, undefined, { signal }).catch(() => undefined);
    }
  }

  return {
    name: "maintain",
    ready: Promise.resolve(),
    dependencies: reconcile === undefined ? ["postgresql"] : ["kafka", "postgresql"],
    get fault() {
      return (
        [fault, rollUp.fault, numberIndexes?.fault].filter((each) => each !== undefined).join("; ") ||
        undefined
      );
    },
    // What keeps it from its work is tried again.
    failed: false,
    async run(signal) {
      using _rows = telemetry.observe("weir.store.default_partition.rows", () =>
        seen === undefined ? [] : [[{}, seen.defaultRows]],
      );
      using _ahead = telemetry.observe("weir.store.partitions.ahead", () =>
        seen === undefined ? [] : [[{}, seen.monthsAhead]],
      );
      using _detached = telemetry.observe("weir.store.partitions.detached", () =>
        seen === undefined ? [] : [[{}, seen.detached]],
      );
      await Promise.all([rollUp.run(signal), numberIndexes?.run(signal), runRounds(signal)]);
    },
  };
}

function dutiesOf({ db, telemetry, log, retention }: MaintainOptions): readonly Duty[] {
  const duties: Duty[] = [
    {
      what: "making partitions",
      everyMs: DAY_MS,
      async run(time) {
        for (const name of await ensurePartitions(db, time)) log.info("Partition made", { partition: name });
      },
    },
  ];
  if (retention !== undefined) {
    duties.push({
      what: "retention",
      everyMs: DAY_MS,
      async run(time, signal) {
        // A segment of the log outlives its records' retention; a day more is enough.
        const loggedSince = new Date(time.getTime() - retention.logMs - DAY_MS);
        const plan = { cutoff: before(time, retention.age), loggedSince, drop: retention.drop };
        for (const { name: partition, outcome } of await retirePartitions(db, plan)) {
          if (outcome === "needed") {
            log.warn("A partition is old enough to go and stays: events of it may be on the log still", {
              partition,
            });
          } else {
            log.info("Retention took a partition out of the table", { partition, outcome });
            telemetry.count("weir.store.retention.partitions", { outcome });
          }
        }
        const removed = await deleteDuplicates(db, plan, signal);
        telemetry.count("weir.store.retention.duplicates", {}, removed);
      },
    });
  }
  return duties;
}
