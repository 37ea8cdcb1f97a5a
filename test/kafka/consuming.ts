import { type KafkaClient } from "#kafka/client.ts";
import { type ConsumerOptions } from "#kafka/consumer.ts";
import {
  type Consumer,
  type ConsumerHandler,
  type LogRange,
  type ReceivedRecord,
  type TopicPartition,
} from "#kafka/ports.ts";

import { type Broker } from "./broker.ts";

/** What a consumer under test has been told and has handed over. */
export interface Consuming extends AsyncDisposable {
  readonly consumer: Consumer;
  readonly group: string;
  /** The partition's log range at each `assigned`. */
  readonly assigned: readonly (readonly [partition: number, log: LogRange])[];
  readonly revoked: readonly number[];
  /** What was handed over, call by call. */
  readonly batches: readonly (readonly ReceivedRecord[])[];
  /** The values handed over of one partition, as text. */
  values(partition?: number): readonly string[];
  /** Stops the consumer and waits for it. */
  stop(): Promise<void>;
}

/** Consumes a topic; `handler` may take over some of the effects. From the committed offset, else the log's start. */
export function consume(
  broker: Broker,
  topic: string,
  handler: Partial<ConsumerHandler> = {},
  options: Partial<ConsumerOptions> & { readonly client?: KafkaClient } = {},
): Consuming {
  const group = options.group ?? broker.name("group");
  const assigned: [number, LogRange][] = [];
  const revoked: number[] = [];
  const batches: (readonly ReceivedRecord[])[] = [];
  const busy = new Set<number>();
  const overlaps: string[] = [];

  /** Watches that calls for one partition never overlap. */
  async function alone<T>({ partition }: TopicPartition, call: () => Promise<T>): Promise<T> {
    if (busy.has(partition)) overlaps.push(`partition ${partition}`);
    busy.add(partition);
    try {
      return await call();
    } finally {
      busy.delete(partition);
    }
  }

  const consumer = (options.client ?? broker.client).createConsumer({
    connection: broker.connection,
    topic: { name: topic, maxMessageBytes: 1_048_576 },
    log: broker.log,
    batchWaitMs: 50,
    ...options,
    group,
    handler: {
      assigned: (partition, log) =>
        alone(partition, async () => {
          assigned.push([partition.partition, log]);
          return handler.assigned?.(partition, log) ?? log.committed ?? log.start;
        }),
      records: (partition, records, signal) =>
        alone(partition, async () => {
          await handler.records?.(partition, records, signal);
          batches.push(records);
        }),
      passed: (partition, nextOffset) =>
        alone(partition, async () => handler.passed?.(partition, nextOffset)),
      revoked(partition) {
        if (busy.has(partition.partition)) overlaps.push(`revoked ${partition.partition}`);
        revoked.push(partition.partition);
        handler.revoked?.(partition);
      },
    },
  });
  const stopping = new AbortController();
  const running = consumer.run(stopping.signal);
  async function stop(): Promise<void> {
    stopping.abort();
    await running;
    if (overlaps.length > 0) throw new Error(`calls overlapped: ${overlaps.join(", ")}`);
  }
  return {
    consumer,
    group,
    assigned,
    revoked,
    batches,
    values: (partition) =>
      batches
        .flat()
        .filter((record) => partition === undefined || record.partition === partition)
        .map(({ value }) => String(value)),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
