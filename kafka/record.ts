import { type AcceptedEvent, type StoredEvent } from "#core/event.ts";
import { refuse } from "#core/faults.ts";
import { decodeKafkaRecord, encodeKafkaBinary } from "#core/kafka-binary.ts";
import { partitionFor, partitionKey } from "#core/partition.ts";
import { type Result } from "#core/reason.ts";
import { parseTimestamp } from "#core/timestamp.ts";
import { decodeUtf8, encodeUtf8 } from "#core/utf8.ts";
import { type TraceContext, traceContextOf } from "#runtime/trace-context.ts";

import { type OutgoingRecord, type ReceivedRecord, type RecordContent, type RecordHeader } from "./ports.ts";

const PRINCIPAL = "weir-principal";
const ACCEPT_TIME = "weir-accept-time";
const TRACE_PARENT = "traceparent";
const TRACE_STATE = "tracestate";

/**
 * The record of an accepted event: binary mode (CloudEvents Kafka binding), its key and partition by core/partition.ts,
 * its timestamp the accept time. What Weir knows of the event stands in headers of its own (design § 3).
 */
export function encodeRecord(accepted: AcceptedEvent, topic: string, partitions: number): OutgoingRecord {
  const { event, acceptTime, principal, traceParent, traceState } = accepted;
  const key = partitionKey(event);
  const { headers, value } = encodeKafkaBinary(event);
  return {
    topic,
    partition: partitionFor(key, partitions),
    key: encodeUtf8(key),
    value,
    headers: [
      ...headers,
      [PRINCIPAL, encodeUtf8(principal)],
      [ACCEPT_TIME, encodeUtf8(new Date(acceptTime).toISOString())],
      ...optional(TRACE_PARENT, traceParent),
      ...optional(TRACE_STATE, traceState),
    ],
    timestamp: acceptTime,
  };
}

/**
 * The event of a record, whoever wrote it; never throws. A record without Weir's own headers came by another way: its
 * principal is "" and its accept time the record's timestamp. The payload may share memory with the record.
 */
export function decodeRecord(record: ReceivedRecord): Result<StoredEvent> {
  try {
    const decoded = decodeKafkaRecord(record);
    if (!decoded.ok) return decoded;
    const { topic, partition, offset, headers, timestamp } = record;
    const value: StoredEvent = {
      event: decoded.value,
      acceptTime: acceptTimeOf(headers) ?? timestamp,
      principal: principalOf(record) ?? "",
      ...traceContextOfRecord(record),
      position: { topic, partition, offset },
    };
    return { ok: true, value };
  } catch (error) {
    // A codec that throws has a fault of its own, which must not stop the partition.
    return refuse(
      "",
      "DECODER_FAULT",
      `The decoder failed: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}

/** The record with this trace context in place of its own. */
export function withTraceContext(record: OutgoingRecord, context: TraceContext): OutgoingRecord {
  const others = record.headers.filter(([name]) => name !== TRACE_PARENT && name !== TRACE_STATE);
  const { traceParent, traceState } = context;
  const headers = [...others, ...optional(TRACE_PARENT, traceParent), ...optional(TRACE_STATE, traceState)];
  return { ...record, headers };
}

/** The trace context of a record, whoever wrote it; without a traceparent where there is none that conforms. */
export function traceContextOfRecord({ headers }: RecordContent): TraceContext {
  return traceContextOf((name) => text(headers, name));
}

/**
 * Who sent a record by way of Weir, whether it holds an event or not: the token's subject; undefined where it does not say,
 * or says what no token's subject may be (a control character). That costs no event: PostgreSQL could not store a NUL.
 */
export function principalOf({ headers }: RecordContent): string | undefined {
  const principal = text(headers, PRINCIPAL);
  return principal === undefined || /\p{Cc}/u.test(principal) ? undefined : principal;
}

function optional(name: string, value: string | undefined): RecordHeader[] {
  return value === undefined ? [] : [[name, encodeUtf8(value)]];
}

function text(headers: readonly RecordHeader[], name: string): string | undefined {
  const value = headers.find(([other]) => other === name)?.[1];
  return value ? decodeUtf8(value) : undefined;
}

function acceptTimeOf(headers: readonly RecordHeader[]): number | undefined {
  const time = parseTimestamp(text(headers, ACCEPT_TIME) ?? "");
  return time && time.seconds * 1_000 + Math.floor(time.nanos / 1_000_000);
}
