import { type Reason } from "#core/reason.ts";

// As with the instruments the table is closed: a misspelt attribute does not compile. Names follow OpenTelemetry's
// semantic conventions 1.45.

/** What each kind of span says, beside its name, its times and its status. */
export interface SpanAttributes {
  readonly rpc: {
    readonly "rpc.system.name": "connectrpc" | "grpc";
    readonly "rpc.method": string;
    readonly "rpc.status_code": string;
    readonly "weir.reason": Reason;
  };
  readonly http: {
    readonly "http.request.method": string;
    readonly "http.route": string;
    readonly "url.path": string;
    readonly "url.scheme": "http" | "https";
    readonly "http.response.status_code": number;
    readonly "weir.reason": Reason;
  };
  readonly publish: {
    readonly "messaging.system.name": "kafka";
    readonly "messaging.operation.name": "send";
    readonly "messaging.operation.type": "send";
    readonly "messaging.destination.name": string;
    readonly "messaging.destination.partition.id": string;
    readonly "messaging.message.body.size": number;
    readonly "kafka.offset": number;
  };
  readonly consume: {
    readonly "messaging.system.name": "kafka";
    readonly "messaging.operation.name": "process";
    readonly "messaging.operation.type": "process";
    readonly "messaging.destination.name": string;
    readonly "messaging.destination.partition.id": string;
    readonly "messaging.consumer.group.name": string;
    readonly "messaging.batch.message_count": number;
    readonly "kafka.offset": number;
  };
  readonly transaction: {
    readonly "db.system.name": "postgresql";
    readonly "db.namespace": string;
    readonly "db.operation.name": "TRANSACTION";
    readonly "db.response.status_code": string;
  };
}

/** What a kind of span says of itself. */
export interface SpanKindOf<K extends keyof SpanAttributes> {
  readonly kind: "SERVER" | "PRODUCER" | "CONSUMER" | "CLIENT";
  /** How its name is made. */
  readonly name: string;
  /** What it is the time of, and what its parent is; a sentence or two for an operator. */
  readonly help: string;
  /** What each attribute holds. */
  readonly attributes: Readonly<Record<keyof SpanAttributes[K], string>>;
}

const REASON = "Why it was refused: the reason that the answer has.";

/** Every kind of span, along an event's way. A span that failed has the status ERROR and the attribute error.type. */
export const SPANS: { readonly [K in keyof SpanAttributes]: SpanKindOf<K> } = {
  rpc: {
    kind: "SERVER",
    name: "the method",
    help: "A call of an RPC method, to its end. A child of the span that the request's traceparent names; without one it begins a trace. Health and reflection have none.",
    attributes: {
      "rpc.system.name": "connectrpc, or grpc for gRPC and gRPC-Web.",
      "rpc.method": "The full name, such as weir.v1.IngestService/CreateEvent.",
      "rpc.status_code":
        "ok or Connect's code (not_found); in gRPC's spelling (NOT_FOUND) where the call is gRPC.",
      "weir.reason": REASON,
    },
  },
  http: {
    kind: "SERVER",
    name: "method and route",
    help: "A request of the HTTP binding. A child as above. Routes that are open to all (/healthz, /readyz, /metrics) have none.",
    attributes: {
      "http.request.method": "Such as POST.",
      "http.route": "Such as /v1/events.",
      "url.path": "The same, since no route has a variable.",
      "url.scheme": "http or https.",
      "http.response.status_code": "The status.",
      "weir.reason": REASON,
    },
  },
  publish: {
    kind: "PRODUCER",
    name: "send and the topic",
    help: "One record, from its way into the queue to the brokers' acknowledgement. A child of the request's span, or of the batch's where it is a dead letter. It is the span that the record's traceparent names, and the row's trace_parent.",
    attributes: {
      "messaging.system.name": "kafka.",
      "messaging.operation.name": "send.",
      "messaging.operation.type": "send.",
      "messaging.destination.name": "The topic.",
      "messaging.destination.partition.id": "The partition.",
      "messaging.message.body.size": "Bytes of the record's value.",
      "kafka.offset": "The offset, once it is acknowledged.",
    },
  },
  consume: {
    kind: "CONSUMER",
    name: "process and the topic",
    help: "One batch of a partition until it is durable, with a link to the span of every record in it that is recorded; none where there is no such record. Where all the records are of one trace it is a part of that trace, a child of the first record's span; else it begins a trace of its own.",
    attributes: {
      "messaging.system.name": "kafka.",
      "messaging.operation.name": "process.",
      "messaging.operation.type": "process.",
      "messaging.destination.name": "The topic.",
      "messaging.destination.partition.id": "The partition.",
      "messaging.consumer.group.name": "The consumer group.",
      "messaging.batch.message_count": "Records in the batch.",
      "kafka.offset": "The first record's offset.",
    },
  },
  transaction: {
    kind: "CLIENT",
    name: "TRANSACTION and the database",
    help: "One transaction, with the wait for a connection, to the answer to COMMIT. A child of the batch's span.",
    attributes: {
      "db.system.name": "postgresql.",
      "db.namespace": "The database.",
      "db.operation.name": "TRANSACTION.",
      "db.response.status_code": "The SQLSTATE, where PostgreSQL refused.",
    },
  },
};
