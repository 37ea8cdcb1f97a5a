import { BATCH_OVERHEAD } from "#core/record-size.ts";

import { type OutgoingRecord, type PublishResult } from "./ports.ts";

/** A record on its way, from `publish` to its result. */
export interface Publication {
  readonly record: OutgoingRecord;
  /** The most that the record takes in a batch. */
  readonly bytes: number;
  /** When it was handed in, by `performance.now()`. */
  readonly since: number;
  /** Whether it may be on the log. */
  sent: boolean;
  /** Send it in a batch of its own: one with others was refused, for the fault of one of them. */
  alone: boolean;
  settled: boolean;
  /** Gives the result; the first one counts. */
  settle(result: PublishResult): void;
}

/** What a publication that cannot go on comes to: unknown where it may be on the log, else refused, for its own sake or not. */
export function giveUp(
  publication: Publication,
  cause: Extract<PublishResult, { outcome: "refused" }>["cause"],
  detail: string,
  isOfRecord = false,
): void {
  publication.settle(
    publication.sent ? { outcome: "unknown", detail } : { outcome: "refused", cause, isOfRecord, detail },
  );
}

/** What goes into one produce request: publications by partition, in order. */
export type Batch = ReadonlyMap<number, readonly Publication[]>;

const MOST_RECORDS = 500;
const MOST_BYTES = 8 * 1024 * 1024;

/**
 * The next batch of what waits. A partition's publications stay in order: where one does not fit, none after it is
 * taken.
 */
export function nextBatch(waiting: Iterable<Publication>, maxBatchBytes: number): Batch {
  const batch = new Map<number, Publication[]>();
  const sizes = new Map<number, number>();
  const full = new Set<number>();
  let records = 0;
  let bytes = 0;
  for (const publication of waiting) {
    if (records === MOST_RECORDS || (records > 0 && bytes + publication.bytes > MOST_BYTES)) break;
    const { partition } = publication.record;
    if (full.has(partition)) continue;
    const others = batch.get(partition);
    const size = (sizes.get(partition) ?? BATCH_OVERHEAD) + publication.bytes;
    if (others !== undefined && (size > maxBatchBytes || publication.alone)) {
      full.add(partition);
      continue;
    }
    if (others === undefined) batch.set(partition, [publication]);
    else others.push(publication);
    if (publication.alone) full.add(partition);
    sizes.set(partition, size);
    records += 1;
    bytes += publication.bytes;
  }
  return batch;
}
