import { isSampled, type TraceContext } from "#runtime/trace-context.ts";
import { type Span, type Tracer } from "#runtime/tracing.ts";

import {
  type ConsumerHandler,
  type OutgoingRecord,
  type Producer,
  type PublishResult,
  type ReceivedRecord,
} from "./ports.ts";
import { traceContextOfRecord, withTraceContext } from "./record.ts";

// Spans are made here, around the ports: they are the same whichever client is behind them.

/**
 * The producer with a PRODUCER span for every record that is sampled, from the call to its result. The span is a child of
 * the record's trace context, or of the span within which `publish` is called where the record has none; the span's own
 * then stands on the record. Without a tracer it is the producer itself, and a record keeps its trace context.
 */
export function traceProducer(producer: Producer, tracer: Tracer | undefined): Producer {
  if (tracer === undefined) return producer;
  const start = (record: OutgoingRecord): Span<"publish"> | undefined =>
    tracer.start("publish", {
      name: `send ${record.topic}`,
      attributes: {
        "messaging.system.name": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": record.topic,
        "messaging.destination.partition.id": String(record.partition),
        "messaging.message.body.size": record.value?.length ?? 0,
      },
      parent: traceContextOfRecord(record),
    });
  const finish = async (
    span: Span<"publish">,
    publishing: Promise<PublishResult>,
  ): Promise<PublishResult> => {
    const result = await publishing;
    if (result.outcome === "acknowledged") span.set({ "kafka.offset": Number(result.position.offset) });
    span.end(errorOf(result));
    return result;
  };
  return {
    publish(record, signal) {
      const span = start(record);
      if (span === undefined) return producer.publish(record, signal);
      return finish(span, producer.publish(withTraceContext(record, span.context), signal));
    },
    offer(record, signal) {
      const span = start(record);
      if (span === undefined) return producer.offer(record, signal);
      const offered = producer.offer(withTraceContext(record, span.context), signal);
      // Without a place there was no publishing to be told of: a span that does not end is not sent.
      return offered instanceof Promise ? finish(span, offered) : offered;
    },
    room: () => producer.room(),
    get ready() {
      return producer.ready;
    },
    get fault() {
      return producer.fault;
    },
    get queued() {
      return producer.queued;
    },
    close: (deadlineMs) => producer.close(deadlineMs),
    [Symbol.asyncDispose]: () => producer[Symbol.asyncDispose](),
  };
}

function errorOf(result: PublishResult): string | undefined {
  if (result.outcome === "acknowledged") return undefined;
  return result.outcome === "refused" ? result.cause : "UNKNOWN";
}

/**
 * The handler with a CONSUMER span for every batch that has a record whose span is recorded, within which it runs; with a
 * link to each of those. Without a tracer it is the handler itself.
 */
export function traceHandler(
  handler: ConsumerHandler,
  group: string,
  tracer: Tracer | undefined,
): ConsumerHandler {
  if (tracer === undefined) return handler;
  return {
    assigned: (partition, log) => handler.assigned(partition, log),
    async records(partition, records, signal) {
      const links = records.map(traceContextOfRecord).filter(isSampled);
      const parent = commonParent(links, records);
      const span = tracer.start("consume", {
        name: `process ${partition.topic}`,
        attributes: {
          "messaging.system.name": "kafka",
          "messaging.operation.name": "process",
          "messaging.operation.type": "process",
          "messaging.destination.name": partition.topic,
          "messaging.destination.partition.id": String(partition.partition),
          "messaging.consumer.group.name": group,
          "messaging.batch.message_count": records.length,
          ...(records[0] && { "kafka.offset": Number(records[0].offset) }),
        },
        links,
        ...(parent && { parent }),
      });
      if (span === undefined) return await handler.records(partition, records, signal);
      try {
        await tracer.within(span, () => handler.records(partition, records, signal));
        span.end();
      } catch (error) {
        span.end(error instanceof Error ? error.name : "Error");
        throw error;
      }
    },
    passed: (partition, nextOffset) => handler.passed(partition, nextOffset),
    revoked: (partition) => handler.revoked(partition),
  };
}

/** The span that a batch belongs below: the first record's, where all the records are of one trace. */
function commonParent(
  contexts: readonly TraceContext[],
  records: readonly ReceivedRecord[],
): TraceContext | undefined {
  const traces = new Set(contexts.map(({ traceParent }) => traceParent?.split("-")[1]));
  return contexts.length === records.length && traces.size === 1 ? contexts[0] : undefined;
}
