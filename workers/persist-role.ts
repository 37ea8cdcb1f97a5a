import { setTimeout as sleep } from "node:timers/promises";

import { type Admin, type Consumer } from "#kafka/ports.ts";
import { type Logger } from "#runtime/log.ts";
import { type Observation, type Telemetry } from "#runtime/telemetry.ts";

import { describeFailed } from "./failed-partitions.ts";
import { type Persist, type Progress } from "./persist.ts";
import { type Role } from "./role.ts";
import { createWaiting } from "./waiting.ts";

/** What the persist role is made of. */
export interface PersistRoleOptions {
  /** Consumes the topic for the group, into `persist`. */
  readonly consumer: Consumer;
  readonly persist: Persist;
  readonly group: string;
  readonly topic: string;
  readonly admin: Pick<Admin, "logRanges">;
  readonly telemetry: Telemetry;
  readonly log: Logger;
}

/** How often the log's ends are asked for; the lag is as old as that at most. */
const LAG_INTERVAL_MS = 5_000;
/** How often it is looked whether something waits for too long. */
const WAITING_INTERVAL_MS = 1_000;

/** The persist role: the log into PostgreSQL. */
export function createPersistRole(options: PersistRoleOptions): Role {
  const { consumer, persist, group, topic, admin, telemetry, log } = options;
  const waiting = createWaiting(persist, log);
  let ranges: Awaited<ReturnType<Admin["logRanges"]>> = new Map();

  async function watchEnds(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        ranges = await admin.logRanges(topic);
      } catch (error) {
        // What is not known is not shown.
        ranges = new Map();
        log.debug("The log's ends are not known", { error });
      }
      waiting.look(ranges);
      await sleep(LAG_INTERVAL_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  async function watchWaiting(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      waiting.tell();
      await sleep(WAITING_INTERVAL_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  function* lag(): Generator<Observation<"weir.consumer.lag">> {
    for (const each of persist.progress) {
      const end = ranges.get(each.partition)?.end;
      // A checkpoint beyond the end is no lag but a fault, which the state "failed" shows.
      if (each.state === "failed" || each.nextOffset === undefined || end === undefined) continue;
      const behind = end - each.nextOffset;
      yield [{ group, topic, partition: each.partition }, Number(behind > 0n ? behind : 0n)];
    }
  }

  function partitions(): Observation<"weir.consumer.partitions">[] {
    const count = (state: Progress["state"]): number =>
      persist.progress.filter((each) => each.state === state).length;
    return (["assigned", "stopped", "failed"] as const).map((state) => [{ group, state }, count(state)]);
  }

  return {
    name: "persist",
    ready: Promise.resolve(),
    dependencies: ["kafka", "postgresql"],
    get fault() {
      const failed = persist.progress.flatMap((each) => (each.state === "failed" ? [each.failure] : []));
      return failed.length > 0 ? describeFailed(failed) : (waiting.fault ?? consumer.fault);
    },
    get failed() {
      const states = persist.progress.map(({ state }) => state);
      return states.includes("failed") && !states.includes("stopped");
    },
    async run(signal) {
      using _lag = telemetry.observe("weir.consumer.lag", lag);
      using _partitions = telemetry.observe("weir.consumer.partitions", partitions);
      await Promise.all([consumer.run(signal), watchEnds(signal), watchWaiting(signal)]);
    },
  };
}
