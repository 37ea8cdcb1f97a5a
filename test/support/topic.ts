import { randomUUID } from "node:crypto";

import { kafkajs } from "#kafka/kafkajs/library.ts";
import { type ReceivedRecord, type RecordHeader } from "#kafka/ports.ts";

/** Everything that is on a topic now, by partition and offset, read by a group of its own. */
export async function readTopic(brokers: string, topic: string): Promise<readonly ReceivedRecord[]> {
  const kafka = new kafkajs.Kafka({ brokers: brokers.split(","), logLevel: kafkajs.logLevel.NOTHING });
  const [admin, groupId] = [kafka.admin(), `test.reader.${randomUUID()}`];
  await admin.connect();
  try {
    const offsets = await admin.fetchTopicOffsets(topic);
    const expected = offsets.reduce((sum, { low, high }) => sum + Number(high) - Number(low), 0);
    return expected === 0 ? [] : await readRecords(kafka, groupId, topic, expected);
  } finally {
    await admin.disconnect();
  }
}

async function readRecords(
  kafka: InstanceType<typeof kafkajs.Kafka>,
  groupId: string,
  topic: string,
  expected: number,
): Promise<ReceivedRecord[]> {
  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 100 });
  const records: ReceivedRecord[] = [];
  const done = Promise.withResolvers<void>();
  await consumer.connect();
  try {
    await consumer.subscribe({ topic, fromBeginning: true });
    await consumer.run({
      eachMessage: ({ partition, message: { key, value, headers, timestamp, offset } }) => {
        // kafka/kafkajs/library.ts makes headers the list that they are on the wire.
        const content = {
          key,
          value,
          headers: headers as unknown as RecordHeader[],
          timestamp: Number(timestamp),
        };
        records.push({ ...content, topic, partition, offset: BigInt(offset) });
        if (records.length === expected) done.resolve();
        return Promise.resolve();
      },
    });
    await done.promise;
  } finally {
    await consumer.disconnect();
  }
  return records.toSorted((a, b) => a.partition - b.partition || Number(a.offset - b.offset));
}

/** Deletes those of the topics that are there. */
export async function deleteTopics(brokers: string, topics: readonly string[]): Promise<void> {
  const kafka = new kafkajs.Kafka({ brokers: brokers.split(","), logLevel: kafkajs.logLevel.NOTHING });
  const admin = kafka.admin({ retry: { retries: 1 } });
  try {
    await admin.connect();
    const made = new Set(await admin.listTopics());
    await admin.deleteTopics({ topics: topics.filter((topic) => made.has(topic)) });
  } finally {
    await admin.disconnect();
  }
}
