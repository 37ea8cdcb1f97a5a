import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { KafkaError } from "#kafka/ports.ts";
import { type FoundTopic, TopicMismatchError } from "#kafka/topics.ts";
import { type Logger } from "#runtime/log.ts";
import { type Service } from "#runtime/service.ts";

/** Sees to it that the topics are there, however late the brokers come. */
export interface TopicSetup extends Service {
  /** Whether the brokers have answered or failed yet; until then the fault says nothing of why. */
  readonly looked: boolean;
  /** Why the topics are not known to be there; undefined once they are. */
  readonly fault: string | undefined;
  /** What an operator should know: that the log has one copy. */
  readonly note: string | undefined;
}

const RETRY_MS = 1_000;
const NOT_LOOKED = "the topics were not looked at yet";
/** How long the start of the process waits for brokers that do not answer. */
const FIRST_LOOK_MS = 3_000;

/**
 * Makes the topics, again every second until the brokers answer. It is ready once it has looked, whatever it found, or
 * soon: a server whose brokers are away starts, and says that it is not ready. A mismatch ends the process.
 */
export function createTopicSetup(ensure: () => Promise<readonly FoundTopic[]>, log: Logger): TopicSetup {
  let fault: string | undefined = NOT_LOOKED;
  let note: string | undefined;
  const looked = Promise.withResolvers<void>();

  const setUp = async (): Promise<void> => {
    const topics = await ensure();
    for (const { name, partitions, replication, created, repaired } of topics) {
      if (created) log.info("Topic made", { topic: name, partitions, replication });
      if (repaired.length > 0)
        log.warn("Settings of a topic were put right", { topic: name, settings: repaired });
    }
    const single = topics.filter(({ replication }) => replication === 1).map(({ name }) => name);
    note =
      single.length === 0
        ? undefined
        : `one copy: ${single.join(", ")} are on one broker each, and a lost disk is a lost log`;
    fault = undefined;
  };

  return {
    name: "topics",
    ready: looked.promise,
    async run(signal) {
      const timer = setTimeout(looked.resolve, FIRST_LOOK_MS);
      signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
      while (fault !== undefined && !signal.aborted) {
        try {
          await setUp();
        } catch (error) {
          if (error instanceof TopicMismatchError) throw error;
          const message = error instanceof Error ? error.message : String(error);
          if (message !== fault) {
            const isExpected = error instanceof KafkaError;
            log.warn("The topics cannot be looked at yet", isExpected ? { reason: message } : { error });
            if (isExpected) log.debug("Why the topics cannot be looked at", { error });
          }
          fault = message;
          looked.resolve();
          await sleep(RETRY_MS, undefined, { signal }).catch(() => undefined);
        }
      }
      if (!signal.aborted) await once(signal, "abort");
    },
    get looked() {
      return fault !== NOT_LOOKED;
    },
    get fault() {
      return fault;
    },
    get note() {
      return note;
    },
  };
}
