import { type Base } from "@platformatic/kafka";

import { MEMBERSHIP } from "../adapter.ts";
import { type ConnectionOptions } from "../connection.ts";
import { type Fetched } from "../partition-reader.ts";
import { KafkaError, type TopicPartition } from "../ports.ts";
import { clientOptions, openPool } from "./client.ts";
import { type FetchApi, fetchFrom, OFFSET_OUT_OF_RANGE, PASSING } from "./fetch.ts";
import { toFetched } from "./fetched.ts";
import { describeTopic, getApi } from "./library.ts";

/** Reads partitions from any offset, for nobody's group. */
export interface Reader {
  /** As `readFrom` of an admin session. */
  readFrom(partition: TopicPartition, offset: bigint, maxBytes: number): Promise<Fetched | undefined>;
  destroy(): void;
}

/** A reader by the library's Fetch API; `client` knows the cluster. */
export function createReader(client: Base, connection: ConnectionOptions): Reader {
  const pool = openPool(clientOptions(connection, 0));
  return {
    async readFrom(of, offset, maxBytes) {
      for (let tries = 1; ; tries += 1) {
        // A leader that has moved is known after the first try.
        const { cluster, topic } = await describeTopic(client, of.topic, tries > 1);
        const broker = cluster.brokers.get(topic.partitions[of.partition]?.leader ?? -1);
        if (broker === undefined) throw new KafkaError(`partition ${of.partition} has no leader`);
        const answer = await fetchFrom(
          await getApi<FetchApi>(client, "Fetch"),
          await pool.get(broker),
          topic,
          {
            topic: of.topic,
            offsets: new Map([[of.partition, offset]]),
            maxWaitMs: 0,
            maxBytes,
            partitionMaxBytes: maxBytes,
          },
        );
        const found = answer.responses[0]?.partitions[0];
        const errorCode = found?.errorCode ?? answer.errorCode;
        if (errorCode === OFFSET_OUT_OF_RANGE) return undefined;
        if (errorCode === 0 && found !== undefined) return toFetched(of, offset, found);
        if (!PASSING.has(errorCode) || tries > MEMBERSHIP.retries)
          throw new KafkaError(`it cannot be fetched (Kafka's error code ${errorCode})`);
      }
    },
    destroy: () => pool.destroy(),
  };
}
