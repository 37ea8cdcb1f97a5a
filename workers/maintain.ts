import { setTimeout as sleep } from "node:timers/promises";

import { countDefaultRows, countMonthsAhead, ensurePartitions } from "#postgres/partitions.ts";
import { type Database } from "#postgres/pool.ts";
import { type Logger } from "#runtime/log.ts";
import { type Telemetry } from "#runtime/telemetry.ts";

import { type Role } from "./role.ts";

/** What the maintain role needs. */
export interface MaintainOptions {
  readonly db: Database;
  readonly telemetry: Telemetry;
  readonly log: Logger;
  /** The clock that partitions are made by; the real one by default. */
  readonly now?: () => Date;
  /** The pause between two rounds, in milliseconds; a minute by default. */
  readonly intervalMs?: number;
}

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

/**
 * Keeps the monthly partitions of the events table made ahead: at once and then daily, again a round later where that
 * failed. Every round counts the rows of the default partition, where none should be. Several processes may have the
 * role: an advisory lock keeps them apart, and what one has made the others find.
 */
export function createMaintain({
  db,
  telemetry,
  log,
  now = () => new Date(),
  intervalMs = MINUTE_MS,
}: MaintainOptions): Role {
  let fault: string | undefined = "the partitions were not looked at yet";
  let madeAt: number | undefined;
  let seen: { readonly defaultRows: number; readonly monthsAhead: number } | undefined;

  async function round(): Promise<void> {
    const time = now();
    if (madeAt === undefined || time.getTime() - madeAt >= DAY_MS) {
      for (const name of await ensurePartitions(db, time)) log.info("Partition made", { partition: name });
      madeAt = time.getTime();
    }
    const defaultRows = await countDefaultRows(db);
    if (defaultRows > 0 && defaultRows !== seen?.defaultRows) {
      log.error("Rows are in the default partition: the partition of their month was missing", {
        rows: defaultRows,
      });
    }
    seen = { defaultRows, monthsAhead: await countMonthsAhead(db, time) };
  }

  return {
    name: "maintain",
    ready: Promise.resolve(),
    dependencies: ["postgresql"],
    get fault() {
      return fault;
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
      while (!signal.aborted) {
        try {
          await round();
          fault = undefined;
        } catch (error) {
          seen = undefined;
          fault = error instanceof Error ? error.message : String(error);
          log.warn("Maintenance failed and is tried again", { error, inMs: intervalMs });
        }
        await sleep(intervalMs, undefined, { signal }).catch(() => undefined);
      }
    },
  };
}
