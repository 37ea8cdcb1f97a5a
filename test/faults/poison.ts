import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { type OutgoingRecord, type RecordHeader } from "#kafka/ports.ts";
import { createTelemetry } from "#runtime/telemetry.ts";
import { kafkaClient } from "../support/kafka-client.ts";
import { silentLogger } from "../support/logger.ts";
import { readTopic } from "../support/topic.ts";

/** What became of the poison, by its number. Each list is bounded to 20. */
export interface PoisonVerdict {
  /** Records of it that are on the log for certain. */
  readonly acknowledged: number;
  /** Rows of the index of dead letters: more than that where a record that was sent again is there twice. */
  readonly rows: number;
  /** Letters in the dead-letter topic, by their keys. */
  readonly letters: number;
  /** Records on the log without a row, at the place where each stands. */
  readonly lost: readonly string[];
  /** Rows whose letter is not in the dead-letter topic. */
  readonly unlettered: readonly string[];
  /** Letters, or rows, of what is no poison. */
  readonly invented: readonly string[];
}

/** Writes poison to the log beside the events, past ingest, as others than Weir can. */
export interface Poison {
  /** Writes one record after the other, each as soon as `isDue` says so, again until it is acknowledged. */
  send(isDue: (index: number) => boolean, giveUp: number): Promise<void>;
  /** To be asked once the whole log is stored. */
  compare(databaseUrl: string): Promise<PoisonVerdict>;
}

const GROUP = "weir.persist.v1";
const PARTITIONS = 12;
const DEAD_LETTERS = "weir.events.v1.dlq";
const MOST = 20;

/** So many records of poison for the log at these brokers. */
export function createPoison(records: number, brokers: string, topic: string): Poison {
  const connection = {
    brokers: [brokers],
    clientId: "weir-faults-poison",
    tls: undefined,
    sasl: undefined,
    connectTimeoutMs: 5_000,
    requestTimeoutMs: 10_000,
  };
  /** Where each stands, as the name of its dead letter. */
  const places = new Map<number, string>();
  return {
    async send(isDue, giveUp) {
      await using producer = kafkaClient.createProducer({
        connection,
        topics: [{ name: topic, maxMessageBytes: 2_097_152 }],
        log: silentLogger,
        telemetry: createTelemetry(silentLogger),
      });
      for (let index = 0; index < records; index++) {
        const record = poisonRecord(topic, index);
        for (;;) {
          if (Date.now() > giveUp) throw new Error(`poison ${index} was never acknowledged`);
          if (isDue(index)) {
            const result = await producer.publish(record);
            if (result.outcome === "acknowledged") {
              const { partition, offset } = result.position;
              places.set(index, `${GROUP}/${topic}/${partition}/${offset}`);
              break;
            }
          }
          await sleep(20);
        }
      }
    },
    async compare(databaseUrl) {
      const rows = await letterRows(databaseUrl);
      const letters = new Set((await readTopic(brokers, DEAD_LETTERS)).map(({ key }) => String(key)));
      const invented = [...rows].filter(([, preview]) => !preview.startsWith(MARK)).map(([name]) => name);
      invented.push(...[...letters].filter((name) => !rows.has(name)));
      return {
        acknowledged: places.size,
        rows: rows.size,
        letters: letters.size,
        lost: [...places.values()].filter((name) => !rows.has(name)).slice(0, MOST),
        unlettered: [...rows.keys()].filter((name) => !letters.has(name)).slice(0, MOST),
        invented: invented.slice(0, MOST),
      };
    },
  };
}

const MARK = "poison ";

/** One half holds no event, the other one that PostgreSQL cannot index. */
function poisonRecord(topic: string, index: number): OutgoingRecord {
  const text = (value: string): Uint8Array => new TextEncoder().encode(value);
  const wide: RecordHeader[] = [
    ["ce_specversion", text("1.0")],
    ["ce_id", text(`${MARK}${index}`)],
    // Random text is not compressed below what a btree takes.
    ["ce_source", text(`/${randomBytes(6_000).toString("hex")}`)],
    ["ce_type", text("weir.test.poison")],
    ["ce_time", text(new Date().toISOString())],
  ];
  return {
    topic,
    partition: index % PARTITIONS,
    key: null,
    value: text(`${MARK}${index}`),
    headers: index % 2 === 0 ? [] : wide,
    timestamp: Date.now(),
  };
}

/** The previews by the names of the letters. */
async function letterRows(databaseUrl: string): Promise<ReadonlyMap<string, string>> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const { rows } = await client.query<{ name: string; preview: Buffer | null }>(
      `select group_id || '/' || topic || '/' || partition || '/' || "offset" as name, preview from consumer.dead_letter`,
    );
    return new Map(rows.map(({ name, preview }) => [name, String(preview ?? "")]));
  } finally {
    await client.end();
  }
}
