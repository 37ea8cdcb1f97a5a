import { Consumer, type offsetCommitV9 } from "@platformatic/kafka";

import { inconsistentGroup, type Member, MEMBERSHIP, type MemberOptions, TopicMissing } from "../adapter.ts";
import { KafkaError } from "../ports.ts";
import { within } from "../waiting.ts";
import { clientOptions, ownSockets } from "./client.ts";
import { isProtocolError, unknownTopic } from "./errors.ts";
import { createFetcher } from "./fetcher.ts";
import { describeTopic, getApi } from "./library.ts";

/** In whose time as a leader the last record was written: the offset alone says where to go on. */
const UNKNOWN_EPOCH = -1;

/** A membership by the library's Consumer, which joins and sends heartbeats; what it fetches is ours. Not joined yet. */
export function openMember(options: MemberOptions): Member {
  const { connection, group, topic, onAssigned, onLost, onFetched, log } = options;
  const { sessionMs, heartbeatMs, rebalanceMs, assignor, retries } = MEMBERSHIP;
  // A broker answers a join when the others have joined, too.
  const requestTimeoutMs = Math.max(connection.requestTimeoutMs, 2 * rebalanceMs);
  const consumer = new Consumer({
    ...clientOptions({ ...connection, requestTimeoutMs }, retries),
    groupId: group,
    sessionTimeout: sessionMs,
    heartbeatInterval: heartbeatMs,
    heartbeatStallTimeout: sessionMs,
    rebalanceTimeout: rebalanceMs,
    protocols: [{ name: assignor, version: 0 }],
  });
  const sockets = ownSockets(consumer);
  const failed = Promise.withResolvers<never>();
  const fetcher = createFetcher({ client: consumer, connection, topic, onFetched, onFailed: fail });
  /** The membership that the present assignment came with; a commit of a former one must fail. */
  let joined: { readonly memberId: string; readonly generationId: number } | undefined;

  function fail(error: unknown): void {
    failed.reject(toFault(error));
  }

  function toFault(error: unknown): unknown {
    if (unknownTopic(error) !== undefined) return new TopicMissing(topic.name);
    if (!isProtocolError(error, "INCONSISTENT_GROUP_PROTOCOL")) return error;
    return new KafkaError(inconsistentGroup(group));
  }

  function watch(): void {
    consumer.on("error", fail);
    consumer.on("consumer:group:rebalance", () => {
      fetcher.assign([]);
      onLost();
    });
    consumer.on("consumer:group:join", ({ memberId, generationId, assignments }) => {
      joined = { memberId, generationId: generationId! };
      const partitions = (assignments ?? []).find((each) => each.topic === topic.name)?.partitions ?? [];
      fetcher.assign(partitions);
      onAssigned(partitions);
    });
    consumer.on("consumer:heartbeat:stalled", ({ stalledFor, lastError }) => {
      failed.reject(new KafkaError(`no heartbeat got through in ${stalledFor} ms`, { cause: lastError }));
    });
    consumer.on("consumer:heartbeat:error", ({ error }) => log.debug("A heartbeat failed", { error }));
  }

  async function commit(partition: number, offset: bigint): Promise<void> {
    if (joined === undefined) throw new KafkaError(`group ${group} is not joined`);
    const { memberId, generationId } = joined;
    const coordinator = await consumer.findGroupCoordinator();
    const { cluster } = await describeTopic(consumer, topic.name, false);
    const broker = cluster.brokers.get(coordinator);
    if (broker === undefined) throw new KafkaError(`group ${group} has no coordinator`);
    const offsetCommit = await getApi<typeof offsetCommitV9.api>(consumer, "OffsetCommit");
    // Not the library's own commit, which would join anew and commit for whoever has the partition by then.
    await offsetCommit.async(await consumer.connections.get(broker), group, generationId, memberId, null, [
      {
        name: topic.name,
        partitions: [
          {
            partitionIndex: partition,
            committedOffset: offset,
            committedLeaderEpoch: UNKNOWN_EPOCH,
            committedMetadata: null,
          },
        ],
      },
    ]);
  }

  return {
    async consume(signal) {
      failed.promise.catch(() => {});
      watch();
      consumer.topics.track(topic.name);
      const raised = new Promise<void>((resolve) => {
        if (signal.aborted) resolve();
        signal.addEventListener("abort", () => resolve(), { once: true });
      });
      consumer.joinGroup().catch(fail);
      await Promise.race([failed.promise, raised]);
    },
    seek: (partition, offset) => fetcher.seek(partition, offset),
    pause: (partition) => fetcher.pause(partition),
    resume: (partition) => fetcher.resume(partition),
    commit: (partition, offset) =>
      within(connection.requestTimeoutMs, "Committing an offset", commit(partition, offset)),
    async [Symbol.asyncDispose]() {
      fetcher.destroy();
      await within(MEMBERSHIP.leaveMs, "Leaving the group", Promise.resolve(consumer.leaveGroup())).catch(
        () => {},
      );
      sockets.destroy();
      await consumer.close().catch(() => {});
    },
  };
}
