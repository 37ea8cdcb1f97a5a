import { type Logger } from "#runtime/log.ts";

import { type ConsumerHandler, type LogRange, type ReceivedRecord, type TopicPartition } from "./ports.ts";
import { backoff, pause } from "./waiting.ts";

/** What one fetch brought of a partition. */
export interface Fetched {
  /** The offset that was asked for. */
  readonly from: bigint;
  /** The offset to ask for next. */
  readonly next: bigint;
  /** The end of the log by then. */
  readonly end: bigint;
  /** What is left of it without control records and aborted transactions: possibly nothing. */
  readonly records: readonly ReceivedRecord[];
}

/** What a reader asks of the consumer that it belongs to. */
export interface Source {
  /** What the broker says of the partition now. */
  logRange(): Promise<LogRange>;
  /** Fetch from this offset on. */
  seek(offset: bigint): void;
  /** Fetch nothing until `resume`. */
  pause(): void;
  resume(): void;
  /** Commits the offset for the group; a failure is not the reader's concern. */
  commit(offset: bigint): Promise<void>;
}

/** What a reader needs. */
export interface ReaderOptions {
  readonly partition: TopicPartition;
  readonly source: Source;
  readonly handler: ConsumerHandler;
  /** Settles when nobody else works on the partition any more. */
  readonly after: Promise<void>;
  /** The most records that are handed over at once. */
  readonly batchRecords: number;
  /** How long fewer are gathered, in milliseconds, while the log has more; at once where it is drained. */
  readonly batchWaitMs: number;
  /** How much may wait, in bytes; one fetch more may come on top. */
  readonly bufferBytes: number;
  readonly log: Logger;
}

/** One assignment of a partition to this member, from its begin to its end. */
export interface PartitionReader {
  readonly partition: TopicPartition;
  /** Why the partition is not read at the moment. */
  readonly fault: string | undefined;
  /** The offset at which it waits for a fetch, and since when by performance.now(); undefined where it wants none. */
  readonly waiting: { readonly offset: bigint; readonly since: number } | undefined;
  /** The id of the topic that it was last opened on; undefined before, and where the brokers give none. */
  readonly topicId: string | undefined;
  /** Takes what was fetched; answers whether it was what is to come next. */
  offer(fetched: Fetched): boolean;
  /** Takes no further records. What is being handled may finish, and is committed. */
  stop(): void;
  /** The partition is no longer ours: as `stop`, the handler is told to let go, and nothing is committed any more. */
  lose(): void;
  /** Tells the handler to let go. */
  hurry(): void;
  /** Settles when the handler was called for the last time and has finished. */
  readonly ended: Promise<void>;
}

/** Reads one partition, one call of the handler at a time, for as long as it is this member's. */
export function createPartitionReader(options: ReaderOptions): PartitionReader {
  const { partition, source, handler, batchRecords, batchWaitMs, bufferBytes, log } = options;
  const stopping = new AbortController();
  const letGo = new AbortController();
  let isLost = false;
  let wasAssigned = false;
  let fault: string | undefined = "the partition is being taken over";
  /** The offset that is to be fetched next; undefined while nothing is to be. */
  let position: bigint | undefined;
  /** What is below it was handed over. */
  let done = 0n;
  let end = 0n;
  let topicId: string | undefined;
  let buffer: ReceivedRecord[] = [];
  let buffered = 0;
  let isPaused = true;
  /** When a fetch last moved on, or fetching began, by performance.now(). */
  let moved = 0;
  let arrived = Promise.withResolvers<void>();

  function close(): void {
    position = undefined;
    buffer = [];
    buffered = 0;
    isPaused = true;
    source.pause();
  }

  async function open(): Promise<void> {
    const range = await source.logRange();
    wasAssigned = true;
    const offset = await handler.assigned(partition, range);
    if (offset < range.start || offset > range.end) {
      throw new Error(`offset ${offset} was asked for, and the log holds ${range.start} to ${range.end}`);
    }
    end = range.end;
    topicId = range.topicId;
    fault = undefined;
    if (stopping.signal.aborted) return;
    position = offset;
    done = offset;
    source.seek(offset);
    resume();
  }

  function resume(): void {
    isPaused = false;
    moved = performance.now();
    source.resume();
  }

  function notify(): void {
    arrived.resolve();
    arrived = Promise.withResolvers();
  }

  /** The next records to hand over: none where the log goes on without any, undefined when the reader is to stop. */
  async function take(): Promise<readonly ReceivedRecord[] | undefined> {
    while (buffer.length === 0 && position === done && !stopping.signal.aborted) await arrived.promise;
    if (buffer.length === 0 && !stopping.signal.aborted) return [];
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      notify();
    }, batchWaitMs);
    while (
      buffer.length < batchRecords &&
      !isPaused &&
      position! < end &&
      !isLate &&
      !stopping.signal.aborted
    ) {
      await arrived.promise;
    }
    clearTimeout(timer);
    if (stopping.signal.aborted) return undefined;
    const records = buffer.splice(0, batchRecords);
    for (const record of records) buffered -= size(record);
    if (isPaused && buffered < bufferBytes / 2) resume();
    return records;
  }

  async function run(): Promise<void> {
    await options.after;
    let failures = 0;
    while (!stopping.signal.aborted) {
      try {
        await open();
        for (let records = await take(); records !== undefined; records = await take()) {
          const last = records.at(-1);
          const next = last === undefined ? position! : last.offset + 1n;
          if (last === undefined) await handler.passed(partition, next);
          else await handler.records(partition, records, letGo.signal);
          failures = 0;
          done = next;
          if (!isLost) await source.commit(next);
        }
      } catch (error) {
        close();
        failures += 1;
        fault = error instanceof Error ? error.message : String(error);
        if (letGo.signal.aborted) break;
        const wait = backoff(failures, 1_250, 30_000);
        log.warn("A partition cannot be consumed and is tried again", {
          ...partition,
          failures,
          wait,
          error,
        });
        await pause(wait, stopping.signal);
      }
    }
    close();
    if (wasAssigned) handler.revoked(partition);
  }

  function stop(): void {
    stopping.abort();
    notify();
  }

  const ended = run();
  return {
    partition,
    ended,
    stop,
    get fault() {
      return fault;
    },
    get topicId() {
      return topicId;
    },
    get waiting() {
      return position === undefined || isPaused ? undefined : { offset: position, since: moved };
    },
    offer({ from, next, end: logEnd, records }) {
      if (position === undefined || stopping.signal.aborted) {
        source.pause();
        return false;
      }
      if (from !== position) {
        source.seek(position);
        return false;
      }
      position = next;
      moved = performance.now();
      end = logEnd;
      buffer.push(...records);
      for (const record of records) buffered += size(record);
      if (buffered >= bufferBytes || buffer.length >= 2 * batchRecords) {
        isPaused = true;
        source.pause();
      }
      notify();
      return true;
    },
    lose() {
      isLost = true;
      stop();
      letGo.abort();
    },
    hurry: () => letGo.abort(),
  };
}

function size({ key, value, headers }: ReceivedRecord): number {
  let bytes = 100 + (key?.length ?? 0) + (value?.length ?? 0);
  for (const [name, content] of headers) bytes += name.length + (content?.length ?? 0);
  return bytes;
}
