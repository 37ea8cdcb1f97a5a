import { type Base } from "@platformatic/kafka";

import { MEMBERSHIP, type MemberOptions, TopicMissing } from "../adapter.ts";
import { KafkaError } from "../ports.ts";
import { backoff, pause } from "../waiting.ts";
import { clientOptions, openPool } from "./client.ts";
import { type FetchApi, fetchFrom, type FetchResponse, OFFSET_OUT_OF_RANGE, PASSING } from "./fetch.ts";
import { toFetched } from "./fetched.ts";
import { type Described, describeTopic, getApi, topicIdOf } from "./library.ts";

/** What a fetcher needs. */
export interface FetcherOptions extends Pick<MemberOptions, "connection" | "topic" | "onFetched"> {
  /** What knows the cluster. */
  readonly client: Base;
  /** Fetching has come to its end. */
  readonly onFailed: (error: unknown) => void;
}

/** Fetches partitions, each from an offset of its own, from their leaders. */
export interface Fetcher {
  /** These partitions from now on, none of which is fetched yet. */
  assign(partitions: readonly number[]): void;
  seek(partition: number, offset: bigint): void;
  pause(partition: number): void;
  resume(partition: number): void;
  destroy(): void;
}

interface Place {
  offset: bigint;
  isPaused: boolean;
}

/**
 * A fetcher by the library's Fetch API. Its stream of messages would not do: it gives aborted records out, stops as a
 * whole where one partition fails, and knows no partition that is paused alone.
 */
export function createFetcher(options: FetcherOptions): Fetcher {
  const { client, topic, connection, onFetched, onFailed } = options;
  const requestTimeoutMs = connection.requestTimeoutMs + MEMBERSHIP.maxWaitMs;
  const pool = openPool(clientOptions({ ...connection, requestTimeoutMs }, 0));
  const ended = new AbortController();
  let places = new Map<number, Place>();
  /** The brokers that a request is under way to; undefined: it is being found out which ones lead. */
  const busy = new Set<number | undefined>();
  let isStale = false;
  let failures = 0;
  /** The topic that is fetched; another one by its name is another log. */
  let topicId: string | undefined;

  function wanted(): number[] {
    return [...places].filter(([, place]) => !place.isPaused).map(([partition]) => partition);
  }

  /** Sees to it that every leader of a wanted partition is being asked. */
  async function pump(): Promise<void> {
    if (busy.has(undefined) || wanted().length === 0 || ended.signal.aborted) return;
    busy.add(undefined);
    try {
      const described = await describeTopic(client, topic.name, isStale);
      isStale = false;
      const found = topicIdOf(described.topic);
      if (topicId !== undefined && found !== topicId)
        return onFailed(new KafkaError(`topic ${topic.name} was made anew: its offsets are of another log`));
      topicId = found;
      const fetchApi = await getApi<FetchApi>(client, "Fetch");
      const leaders = Map.groupBy(
        wanted(),
        (partition) => described.topic.partitions[partition]?.leader ?? -1,
      );
      for (const [leader, partitions] of leaders) {
        if (!busy.has(leader)) void ask(fetchApi, described, leader, partitions);
      }
      busy.delete(undefined);
    } catch (error) {
      await retryLater(error);
      busy.delete(undefined);
      void pump();
    }
  }

  async function ask(
    fetchApi: FetchApi,
    described: Described,
    leader: number,
    partitions: readonly number[],
  ): Promise<void> {
    busy.add(leader);
    try {
      const broker = described.cluster.brokers.get(leader);
      if (broker === undefined) throw new Error(`a partition of ${topic.name} has no leader`);
      const asked = new Map(partitions.map((partition) => [partition, places.get(partition)!.offset]));
      const answer = await fetchFrom(fetchApi, await pool.get(broker), described.topic, {
        topic: topic.name,
        offsets: asked,
        maxWaitMs: MEMBERSHIP.maxWaitMs,
        maxBytes: MEMBERSHIP.fetchBytes,
        partitionMaxBytes: topic.maxMessageBytes,
      });
      if (!ended.signal.aborted) await handOver(answer, asked);
    } catch (error) {
      await retryLater(error);
    } finally {
      busy.delete(leader);
      void pump();
    }
  }

  async function handOver(answer: FetchResponse, asked: ReadonlyMap<number, bigint>): Promise<void> {
    if (answer.errorCode !== 0)
      throw new KafkaError(`fetching failed with Kafka's error code ${answer.errorCode}`);
    let passing: number | undefined;
    for (const { partitions } of answer.responses) {
      for (const found of partitions) {
        const { partitionIndex: partition, errorCode } = found;
        const from = asked.get(partition);
        const place = places.get(partition);
        // Moved, or not ours any more, while it was being fetched.
        if (from === undefined || place === undefined || place.offset !== from) continue;
        if (PASSING.has(errorCode)) passing = errorCode;
        else if (errorCode !== 0) return onFailed(fetchError(partition, from, errorCode));
        const fetched = toFetched({ topic: topic.name, partition }, from, found);
        if (fetched !== undefined && onFetched(partition, fetched)) place.offset = fetched.next;
      }
    }
    if (passing !== undefined) throw new Error(`a partition is not fetched: Kafka's error code ${passing}`);
    failures = 0;
  }

  function fetchError(partition: number, offset: bigint, errorCode: number): KafkaError {
    const where = `${topic.name} partition ${partition}, offset ${offset}`;
    return errorCode === OFFSET_OUT_OF_RANGE
      ? new KafkaError(`${where}: the offset is not on the log any more`)
      : new KafkaError(`${where}: it cannot be fetched (Kafka's error code ${errorCode})`);
  }

  /** Waits before the next try; gives up where too many have failed. */
  async function retryLater(error: unknown): Promise<void> {
    if (ended.signal.aborted) return;
    isStale = true;
    failures += 1;
    if (failures > MEMBERSHIP.retries || error instanceof TopicMissing) onFailed(error);
    else await pause(backoff(failures, 100, 1_000), ended.signal);
  }

  return {
    assign(partitions) {
      places = new Map(partitions.map((partition) => [partition, { offset: 0n, isPaused: true }]));
    },
    seek(partition, offset) {
      const place = places.get(partition);
      if (place !== undefined) place.offset = offset;
    },
    pause(partition) {
      const place = places.get(partition);
      if (place !== undefined) place.isPaused = true;
    },
    resume(partition) {
      const place = places.get(partition);
      if (place !== undefined) place.isPaused = false;
      void pump();
    },
    destroy() {
      ended.abort();
      pool.destroy();
    },
  };
}
