import type { Message, Producer } from "kafkajs";

import {
  type Compression,
  type ProduceSession,
  type ProduceSessionOptions,
  TopicMissing,
} from "../adapter.ts";
import { rootCause } from "../errors.ts";
import { type OutgoingRecord } from "../ports.ts";
import { type Client, createClient } from "./client.ts";
import { protocolError } from "./errors.ts";
import { kafkajs } from "./library.ts";

/** What kafkajs does with the batch under way. */
interface Sending {
  /** A message of the batch, which kafkajs looks at once each time that it begins to send the batch. */
  witness: Message | undefined;
  /** How often it has begun. */
  rounds: number;
}

/** A produce session by a kafkajs producer. */
export function openProduceSession(options: ProduceSessionOptions): ProduceSession {
  const { connection, topic, compression, log } = options;
  // It is the lane that tries again, since it knows what may be sent twice and says what is wrong.
  const client = createClient(connection, 1, log);
  const sending: Sending = { witness: undefined, rounds: 0 };
  const producer = createProducer(client, sending);
  return {
    // It includes InitProducerId: without it kafkajs would send, and not idempotently.
    connect: () => producer.connect(),
    get produceRequests() {
      return client.produceRequests;
    },
    async send(records) {
      const messages = records.map(toMessage);
      sending.witness = messages[0];
      sending.rounds = 0;
      try {
        const answers = await producer.sendBatch({
          acks: -1,
          timeout: connection.requestTimeoutMs,
          compression: COMPRESSION[compression],
          topicMessages: [{ topic, messages }],
        });
        return {
          partitions: answers.map(({ partition, errorCode, baseOffset }) => ({
            partition,
            errorCode,
            baseOffset: BigInt(baseOffset ?? -1),
          })),
          isRepeat: sending.rounds > 1,
        };
      } catch (error) {
        const cause = rootCause(error);
        if (cause instanceof TopicMissing) throw cause;
        if (protocolError(error) === "UNKNOWN_TOPIC_OR_PARTITION") throw new TopicMissing(topic);
        throw error;
      }
    },
    destroy: () => client.destroy(),
  };
}

const COMPRESSION: Readonly<Record<Compression, number>> = {
  none: kafkajs.CompressionTypes.None,
  gzip: kafkajs.CompressionTypes.GZIP,
  zstd: kafkajs.CompressionTypes.ZSTD,
};

function createProducer({ kafka }: Client, sending: Sending): Producer {
  return kafka.producer({
    idempotent: true,
    allowAutoTopicCreation: false,
    retry: { retries: 2, initialRetryTime: 100, maxRetryTime: 500 },
    createPartitioner:
      () =>
      ({ topic, message, partitionMetadata }) => {
        const partition = message.partition!;
        if (!partitionMetadata.some(({ partitionId }) => partitionId === partition)) {
          throw new TopicMissing(topic, partition);
        }
        if (message === sending.witness) sending.rounds += 1;
        return partition;
      },
  });
}

function toMessage({ partition, key, value, headers, timestamp }: OutgoingRecord): Message {
  // library.ts makes kafkajs take any bytes, and headers as a list.
  const parts = { key, value, headers } as unknown as Pick<Message, "key" | "value" | "headers">;
  return { ...parts, partition, timestamp: String(timestamp) };
}
