import {
  type API,
  type Base,
  kGetApi,
  type ClusterMetadata,
  type ClusterTopicMetadata,
} from "@platformatic/kafka";

import { TopicMissing } from "../adapter.ts";
import { unknownTopic } from "./errors.ts";

/** How an API of Kafka's protocol is called on a connection, in the newest version that both brokers and library speak. */
export function getApi<A extends API<never, unknown>>(client: Base, name: string): Promise<A> {
  return new Promise((resolve, reject) => {
    client[kGetApi](name, (error, found) => {
      if (error) reject(error);
      else resolve(found as unknown as A);
    });
  });
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
    const cluster = await client.metadata({ topics: [name], forceUpdate: isNow, retries: 0 });
    const topic = cluster.topics.get(name);
    if (topic !== undefined) return { cluster, topic };
  } catch (error) {
    if (unknownTopic(error) === undefined) throw error;
  }
  throw new TopicMissing(name);
}
