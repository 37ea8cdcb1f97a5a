import { TopicMissing } from "../adapter.ts";
import { type Broker, framed } from "./library.ts";

/** Kafka's Metadata, and the first version of it that tells of topic ids (KIP-516). kafkajs speaks up to version 6. */
const METADATA = { apiKey: 3, apiName: "Metadata", apiVersion: 10 } as const;
const UNKNOWN_TOPIC_OR_PARTITION = 3;
const ID_BYTES = 16;
const NO_ID = Buffer.alloc(ID_BYTES);

/**
 * The id that the brokers gave a topic when it was made, as a UUID; undefined where they give none (before Kafka 2.8).
 *
 * @throws TopicMissing where it does not exist.
 */
export async function askTopicId(broker: Broker, topic: string): Promise<string | undefined> {
  if ((broker.versions?.[METADATA.apiKey]?.maxVersion ?? 0) < METADATA.apiVersion) return undefined;
  const { errorCode, id } = await broker.connectionPool.send({
    request: { ...METADATA, encode: () => Promise.resolve(framed(encodeRequest(topic))) },
    response: {
      decode: (payload) => Promise.resolve(decodeResponse(payload)),
      parse: (answer) => Promise.resolve(answer),
    },
  });
  if (errorCode === UNKNOWN_TOPIC_OR_PARTITION) throw new TopicMissing(topic);
  // Any other is of the topic's partitions; its id is there all the same.
  if (id.equals(NO_ID)) return undefined;
  return id.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/** Metadata request v10 after a request header v2, whose tagged fields come first (Kafka protocol guide). */
function encodeRequest(topic: string): Buffer {
  const name = Buffer.from(topic);
  return Buffer.concat([
    Buffer.from([0]), // the header's tagged fields
    Buffer.from([2]), // one topic: compact arrays have their length and one more
    NO_ID,
    unsignedVarint(name.length + 1),
    name,
    Buffer.from([0]), // the topic's tagged fields
    Buffer.from([0, 0, 0]), // neither make the topic, nor say what is allowed
    Buffer.from([0]), // tagged fields
  ]);
}

function unsignedVarint(value: number): Buffer {
  const bytes: number[] = [];
  let left = value;
  for (; left > 0x7f; left >>>= 7) bytes.push((left & 0x7f) | 0x80);
  return Buffer.from([...bytes, left]);
}

/** The one topic of a Metadata response v10, after a response header v1. */
function decodeResponse(payload: Buffer): { readonly errorCode: number; readonly id: Buffer } {
  let at = 0;
  const skip = (bytes: number): void => void (at += bytes);
  const varint = (): number => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = payload.readUInt8(at++);
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  const skipTags = (): void => {
    for (let tags = varint(); tags > 0; tags -= 1) {
      varint();
      skip(varint());
    }
  };
  // A compact string has its length and one more; null is 0.
  const skipString = (): void => skip(Math.max(varint() - 1, 0));
  skipTags();
  skip(4); // throttle time
  for (let brokers = varint() - 1; brokers > 0; brokers -= 1) {
    skip(4); // node id
    skipString(); // host
    skip(4); // port
    skipString(); // rack
    skipTags();
  }
  skipString(); // cluster id
  skip(4); // controller
  if (varint() !== 2) throw new Error("Kafka did not tell of the one topic that was asked for");
  const errorCode = payload.readInt16BE(at);
  skip(2);
  skipString();
  return { errorCode, id: payload.subarray(at, at + ID_BYTES) };
}
