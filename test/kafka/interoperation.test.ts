import {
  Base,
  Consumer,
  type CompressionAlgorithmValue,
  fetchV17,
  NumericMap,
  produceV11,
  Producer as ForeignProducer,
} from "@platformatic/kafka";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { type KafkaClientName } from "#kafka/client.ts";
import { type OutgoingRecord, type Producer } from "#kafka/ports.ts";

import { type Broker, brokerConnection, CLIENTS, openBroker, textRecord } from "./broker.ts";
import { consume } from "./consuming.ts";

/** Given back last in, first out, whatever else fails. */
const resources = new AsyncDisposableStack();
const brokers = {} as Record<KafkaClientName, Broker>;
beforeAll(async () => {
  for (const name of CLIENTS) {
    brokers[name] = resources.use(await openBroker(brokerConnection(), name));
  }
});
afterAll(() => resources.disposeAsync());

const seconds = { timeout: 20_000 };

function open(broker: Broker, topic: string, compression: "none" | "gzip" | "zstd" = "none"): Producer {
  const { connection, log, telemetry } = broker;
  const topics = [{ name: topic, maxMessageBytes: 1_048_576 }];
  return broker.client.createProducer({ connection, topics, log, telemetry, compression });
}

/** Records of every shape: keys, values and headers that are missing, empty, repeated or not UTF-8. */
function shapes(topic: string): readonly OutgoingRecord[] {
  const bytes = Uint8Array.from({ length: 256 }, (_, index) => index);
  const base = { topic, partition: 0, key: null, value: null, headers: [], timestamp: 600_000_000_000 };
  return [
    base,
    { ...base, key: new Uint8Array(), value: new Uint8Array() },
    { ...base, key: bytes.subarray(100), value: bytes, timestamp: 1_600_000_000_001 },
    {
      ...base,
      headers: [
        ["a", bytes],
        ["b", null],
        ["a", new Uint8Array()],
        ["é", Uint8Array.of(1)],
        ["a", null],
      ],
    },
    // As replayed records may stand beside each other.
    ...[0, 1, 2 ** 30, 2 ** 31 - 1, 2 ** 31, 2 ** 32, 2 ** 32 + 1, 2 ** 39].flatMap((apart) => [
      { ...base, timestamp: base.timestamp + apart },
      { ...base, timestamp: base.timestamp - apart },
    ]),
    ...Array.from({ length: 200 }, (_, index) => ({
      ...base,
      value: Buffer.from(`value ${index} `.repeat(20)),
    })),
  ];
}

/** A record without what depends on who made it. */
function plain({ key, value, headers, timestamp }: OutgoingRecord): unknown {
  const list = (part: Uint8Array | null): number[] | null => part && [...part];
  return {
    key: list(key),
    value: list(value),
    headers: headers.map(([name, part]) => [name, list(part)]),
    timestamp,
  };
}

const pairs = CLIENTS.flatMap((writer) => CLIENTS.map((reader) => ({ writer, reader })));

describe.each(pairs)("$reader reads what $writer wrote", ({ writer, reader }) => {
  test.for(["none", "gzip", "zstd"] as const)("compressed by %s", async (compression) => {
    const [from, to] = [brokers[writer], brokers[reader]];
    const topic = await from.topic(1, { "compression.type": "producer", "retention.ms": "-1" });
    await using producer = open(from, topic, compression);
    const records = shapes(topic);
    const results = await Promise.all(records.map((record) => producer.publish(record)));
    expect(results.filter(({ outcome }) => outcome !== "acknowledged")).toEqual([]);
    await using consuming = consume(to, topic);
    await expect.poll(() => consuming.batches.flat().length, seconds).toBe(records.length);
    expect(consuming.batches.flat().map(plain)).toEqual(records.map(plain));
    expect(await codecs(topic)).toEqual([{ none: 0, gzip: 1, zstd: 4 }[compression]]);
  });
});

test.each(CLIENTS)("what %s compresses is unpacked by the brokers for a topic of Weir's", async (name) => {
  const broker = brokers[name];
  const topic = await broker.topic(1, { "compression.type": "uncompressed" });
  await using producer = open(broker, topic, "zstd");
  const results = await Promise.all(shapes(topic).map((record) => producer.publish(record)));
  expect(results.every(({ outcome }) => outcome === "acknowledged")).toBe(true);
  expect(await codecs(topic)).toEqual([0]);
});

/** The codecs of the batches on a partition, each once. */
async function codecs(topic: string): Promise<readonly number[]> {
  const batches = await readBatches(topic);
  return [...new Set(batches.map(({ attributes }) => attributes & 7))];
}

/** The batches on the topic's only partition, as they are on the log. */
async function readBatches(
  topic: string,
): Promise<readonly { attributes: number; producerId: bigint; producerEpoch: number }[]> {
  const client = new Base({ clientId: "test", bootstrapBrokers: [...brokerConnection().brokers] });
  const { topics, brokers: nodes } = await client.metadata({ topics: [topic] });
  const { id, partitions } = topics.get(topic)!;
  const connection = await client.connections.get(nodes.get(partitions[0]!.leader)!);
  const partition = {
    partition: 0,
    fetchOffset: 0n,
    currentLeaderEpoch: -1,
    lastFetchedEpoch: -1,
    partitionMaxBytes: 1e7,
  };
  const answer = await fetchV17.api.async(
    connection,
    100,
    1,
    1e7,
    0,
    0,
    -1,
    [{ topicId: id, partitions: [partition] }],
    [],
    "",
  );
  await client.close();
  return answer.responses.flatMap((each) => each.partitions.flatMap(({ records }) => records ?? []));
}

/** Writes a text as somebody else's producer may. */
async function writeForeign(topic: string, compression: CompressionAlgorithmValue): Promise<void> {
  const producer = new ForeignProducer({
    clientId: "test",
    bootstrapBrokers: [...brokerConnection().brokers],
  });
  await producer.send({
    messages: [{ topic, partition: 0, value: Buffer.from("foreign".repeat(30)) }],
    compression,
  });
  await producer.close();
}

describe.each(["snappy", "lz4"] as const)("a batch compressed by %s", (codec) => {
  test("is read by platformatic", async () => {
    const topic = await brokers.platformatic.topic(1, { "compression.type": "producer" });
    await writeForeign(topic, codec);
    await using consuming = consume(brokers.platformatic, topic);
    await expect.poll(() => consuming.values(), seconds).toEqual(["foreign".repeat(30)]);
  });

  test("is refused by kafkajs, by name, and is read once the broker unpacks it", async () => {
    const broker = brokers.kafkajs;
    const topic = await broker.topic(2, { "compression.type": "producer" });
    await writeForeign(topic, codec);
    await using consuming = consume(broker, topic);
    await expect
      .poll(() => consuming.consumer.fault, seconds)
      .toMatch(new RegExp(`${codec} compression`, "i"));
    const plainTopic = await broker.topic(1, { "compression.type": "uncompressed" });
    await writeForeign(plainTopic, codec);
    await using unpacked = consume(broker, plainTopic);
    await expect.poll(() => unpacked.values(), seconds).toEqual(["foreign".repeat(30)]);
  });
});

describe("a group whose members run different clients", () => {
  test.for([
    ["kafkajs", "platformatic"],
    ["platformatic", "kafkajs"],
  ] as const)("that %s began and %s joined shares the partitions", async ([begins, joins]) => {
    const topic = await brokers[begins].topic(4);
    await using producer = open(brokers[begins], topic);
    const group = brokers[begins].name("group");
    await using first = consume(brokers[begins], topic, {}, { group });
    await expect.poll(() => first.consumer.assignment.length, seconds).toBe(4);
    {
      await using second = consume(brokers[joins], topic, {}, { group });
      await expect.poll(() => second.consumer.assignment.length, seconds).toBe(2);
      await expect.poll(() => first.consumer.assignment.length, seconds).toBe(2);
      for (const partition of [0, 1, 2, 3]) await producer.publish(textRecord(topic, partition, "shared"));
      await expect.poll(() => first.values().length, seconds).toBe(2);
      await expect.poll(() => second.values().length, seconds).toBe(2);
      expect([first.consumer.fault, second.consumer.fault]).toEqual([undefined, undefined]);
    }
    await expect.poll(() => first.consumer.assignment.length, seconds).toBe(4);
    expect(await brokers[joins].admin.committedOffsets(group, topic)).toEqual(
      new Map([0, 1, 2, 3].map((partition) => [partition, 1n])),
    );
  });

  test.each(CLIENTS)("of another assignor is not joined by %s, which says why and waits", async (name) => {
    const broker = brokers[name];
    const topic = await broker.topic(1);
    const groupId = broker.name("group");
    const foreign = new Consumer({
      clientId: "test",
      bootstrapBrokers: [...broker.connection.brokers],
      groupId,
    });
    foreign.topics.track(topic);
    await foreign.joinGroup();
    await using consuming = consume(broker, topic, {}, { group: groupId });
    await expect
      .poll(() => consuming.consumer.fault, seconds)
      .toMatch(/members that do not share partitions out by RoundRobinAssigner.*WEIR_PERSIST_GROUP/);
    await foreign.close();
    await expect.poll(() => consuming.consumer.assignment.length, seconds).toBe(1);
    await expect.poll(() => consuming.consumer.fault, seconds).toBeUndefined();
  });
});

test.each(CLIENTS)(
  "%s gets a fresh producer id where the broker has lost the order of the old one",
  async (name) => {
    const broker = brokers[name];
    const topic = await broker.topic(1);
    await using producer = open(broker, topic);
    expect(await producer.publish(textRecord(topic, 0, "first"))).toMatchObject({ outcome: "acknowledged" });
    const { producerId, producerEpoch } = (await readBatches(topic))[0]!;
    await writeAs(topic, { producerId, producerEpoch }, 1, ["intruder", "intruder", "intruder"]);

    const next = await Promise.all(["b", "c"].map((value) => producer.publish(textRecord(topic, 0, value))));
    expect(next).toMatchObject([
      { outcome: "acknowledged", position: { offset: 4n } },
      { outcome: "acknowledged", position: { offset: 5n } },
    ]);
    const ids = (await readBatches(topic)).map((batch) => batch.producerId);
    expect(ids.slice(0, 2)).toEqual([producerId, producerId]);
    expect(ids.slice(2)).not.toContain(producerId);
    expect(
      broker.log.lines.some(([, , fields]) =>
        JSON.stringify(fields).includes("OUT_OF_ORDER_SEQUENCE_NUMBER"),
      ),
    ).toBe(true);
  },
);

/** Writes in the name of a producer, from a sequence number on. */
async function writeAs(
  topic: string,
  id: { readonly producerId: bigint; readonly producerEpoch: number },
  sequence: number,
  texts: readonly string[],
): Promise<void> {
  const client = new Base({ clientId: "test", bootstrapBrokers: [...brokerConnection().brokers] });
  const { topics, brokers: nodes } = await client.metadata({ topics: [topic] });
  const connection = await client.connections.get(nodes.get(topics.get(topic)!.partitions[0]!.leader)!);
  const records = texts.map((text) => ({
    topic,
    partition: 0,
    value: Buffer.from(text),
    headers: new Map<Buffer, Buffer>(),
  }));
  const sequences = new NumericMap([[`${topic}:0`, sequence]]);
  await produceV11.api.async(connection, -1, 5_000, records, { ...id, sequences });
  await client.close();
}
