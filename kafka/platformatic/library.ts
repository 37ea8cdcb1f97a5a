import {
  type API,
  type Base,
  clientSoftwareVersion,
  type ClusterMetadata,
  type ClusterTopicMetadata,
  kGetApi,
} from "@platformatic/kafka";

import { TopicMissing } from "../adapter.ts";
import { unknownTopic } from "./errors.ts";

const VERSION = "2.12.1";

if (clientSoftwareVersion !== VERSION) {
  throw new Error(
    `kafka/platformatic was written against @platformatic/kafka ${VERSION} and found ${clientSoftwareVersion}: ` +
      "check what it takes from the library, and what it leaves unused, against it.",
  );
}

/** How an API of Kafka's protocol is called on a connection, in the newest version that both brokers and library speak. */
export function getApi<A extends API<never, unknown>>(client: Base, name: string): Promise<A> {
  return new Promise((resolve, reject) => {
    client[kGetApi](name, (error, found) => {
      if (error) reject(error);
      else resolve(found as unknown as A);
    });
  });
}

/** How often to ask again what the cluster looks like: from a broker that is ill the library turns to another only so. */
export const ASK_OTHERS = 2;

/** What stands for the id of a topic that brokers before Kafka 2.8 have none for. */
const NO_ID = "00000000-0000-0000-0000-000000000000";

/** The id that the brokers gave a topic when it was made; undefined where they give none. */
export function topicIdOf({ id }: Pick<ClusterTopicMetadata, "id">): string | undefined {
  return id === NO_ID ? undefined : id;
}

/** A topic as the brokers describe it, with the cluster. */
export interface Described {
  readonly cluster: ClusterMetadata;
  readonly topic: ClusterTopicMetadata;
}

/**
 * What the brokers say of a topic: now, or in the last seconds.
 *
 * @throws TopicMissing where they say that it does not exist.
 */
export async function describeTopic(client: Base, name: string, isNow: boolean): Promise<Described> {
  try {
    const cluster = await client.metadata({ topics: [name], forceUpdate: isNow, retries: ASK_OTHERS });
    const topic = cluster.topics.get(name);
    if (topic !== undefined) return { cluster, topic };
  } catch (error) {
    if (unknownTopic(error) === undefined) throw error;
  }
  throw new TopicMissing(name);
}
