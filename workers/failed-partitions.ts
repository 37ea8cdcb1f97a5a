import { type TopicPartition } from "#kafka/ports.ts";

/** A partition whose log is not the one that was read. */
export interface FailedPartition extends TopicPartition {
  readonly group: string;
  /** Where it was to be read from. */
  readonly offset: bigint;
  /** Whether a checkpoint said so, or, without one, Kafka's committed offset. */
  readonly by: "checkpoint" | "committed";
  readonly why: "BEYOND_END" | "ANOTHER_TOPIC";
  readonly logStart: bigint;
  readonly logEnd: bigint;
}

/**
 * What happened to partitions of one topic and group, what it means, and the SQL that has them read from the start of their
 * log: one statement, unless the logs begin at different offsets.
 */
export function describeFailed(failed: readonly FailedPartition[]): string {
  const found = failed.map(({ topic, partition, group, offset, by, why, logEnd }) => {
    const what = `${by === "checkpoint" ? "the checkpoint" : "Kafka's committed offset"} of ${topic}/${partition} in group ${group} is ${offset}`;
    if (why === "ANOTHER_TOPIC") return `${what}, and the topic was made anew since`;
    return offset > logEnd
      ? `${what}, beyond the log's end ${logEnd}`
      : `${what}, and was beyond the log's end, which is ${logEnd} by now`;
  });
  const starts = Map.groupBy(failed, ({ logStart }) => logStart);
  const statements = [...starts].map(([start, partitions]) => rewind(start, partitions));
  return (
    `FAILED: ${found.join("; ")}. This is not the log that was read up to there (it was made anew, or is an older copy), ` +
    `so nothing of it is read. If it holds the same records at the same offsets (a log that was moved as it is), see ` +
    `docs/operations.md. To have it read from its start, run: ${statements.join(" ")}`
  );
}

function rewind(start: bigint, partitions: readonly FailedPartition[]): string {
  const { group = "", topic = "" } = partitions[0] ?? {};
  const numbers = partitions.map(({ partition }) => partition).toSorted((a, b) => a - b);
  return (
    `update consumer.checkpoint set next_offset = ${start}, high_water = ${start}, generation = generation + 1, ` +
    `log_id = null, log_since = clock_timestamp() ` +
    `where group_id = ${literal(group)} and topic = ${literal(topic)} and partition in (${numbers.join(", ")});`
  );
}

/** A string of SQL. */
function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
