import {
  duration,
  file,
  flag,
  type Form,
  hostPort,
  integer,
  kafkaName,
  listOf,
  oneOf,
  origin,
  pem,
  port,
  size,
  text,
  url,
} from "./setting-forms.ts";

/** The levels of the log, the most talkative first. */
export type LogLevel = "debug" | "info" | "warn" | "error";

/** The signature algorithms that a token may be pinned to. */
export type JwtAlgorithm = `${"HS" | "RS" | "ES"}${256 | 384 | 512}` | "EdDSA";

/** The roles that a worker process may have. */
export type WorkerRole = "persist" | "maintain";

/** The value of every setting, by group. undefined: not set, and there is no default. */
export interface Values {
  readonly process: {
    readonly logLevel: LogLevel;
    readonly logFormat: "auto" | "json" | "pretty";
    readonly drainTimeoutMs: number;
    readonly stopTimeoutMs: number;
  };
  readonly http: {
    readonly host: string;
    readonly port: number;
    readonly metricsPort: number | undefined;
    readonly tlsCertificate: string | undefined;
    readonly tlsKey: string | undefined;
    readonly corsOrigins: readonly string[];
    readonly headerTimeoutMs: number;
    readonly requestTimeoutMs: number;
    readonly requestTimeoutMaxMs: number;
    readonly readLimitBytes: number;
    readonly maxConnections: number;
    readonly maxStreams: number;
    readonly maxStreamDurationMs: number;
  };
  readonly jwt: {
    readonly algorithm: JwtAlgorithm;
    readonly secret: string | undefined;
    readonly publicKey: string | undefined;
    readonly publicKeyFile: string | undefined;
    readonly jwksUrl: string | undefined;
    readonly issuer: string | undefined;
    readonly audience: string | undefined;
    readonly leewayMs: number;
  };
  readonly limits: {
    readonly eventBytes: number;
    readonly sourceBytes: number;
    readonly subjectBytes: number;
    readonly idBytes: number;
    readonly typeBytes: number;
    readonly attributeNameBytes: number;
    readonly attributeValueBytes: number;
    readonly extensions: number;
    readonly futureMs: number;
    readonly pastMs: number;
  };
  readonly database: {
    readonly url: string;
    readonly poolSize: number;
    readonly connectTimeoutMs: number;
    readonly statementTimeoutMs: number;
  };
  readonly search: {
    readonly databaseUrl: string | undefined;
    readonly poolSize: number;
    readonly statementTimeoutMs: number;
    readonly concurrency: number;
    readonly queue: number;
    readonly queueWaitMs: number;
  };
  readonly kafka: {
    readonly brokers: readonly string[];
    readonly clientId: string;
    readonly tls: boolean;
    readonly ca: string | undefined;
    readonly saslMechanism: "plain" | "scram-sha-256" | "scram-sha-512" | undefined;
    readonly username: string | undefined;
    readonly password: string | undefined;
    readonly connectTimeoutMs: number;
    readonly requestTimeoutMs: number;
  };
  readonly topics: {
    readonly replication: number | undefined;
    readonly events: string;
    readonly eventsPartitions: number;
    readonly eventsRetentionMs: number;
    readonly deadLetters: string;
    readonly deadLettersPartitions: number;
    readonly deadLettersRetentionMs: number;
  };
  readonly producer: {
    readonly queueRecords: number;
    readonly queueBytes: number;
    readonly publishTimeoutMs: number;
  };
  readonly workers: {
    readonly roles: readonly WorkerRole[];
    readonly port: number | undefined;
    readonly persistGroup: string;
    readonly persistBatchRecords: number;
    readonly persistBatchWaitMs: number;
  };
}

/** One setting: its variable, how its text is read, and what it means. */
export interface Setting {
  /** The environment variable. */
  readonly name: `WEIR_${string}`;
  readonly form: Form<unknown>;
  /** What stands where the variable is not set, as an operator would write it. */
  readonly default?: string;
  /** A process that reads its group does not start without it. */
  readonly required?: true;
  /** What the value counts. Durations and sizes carry their unit in the text itself. */
  readonly unit: string;
  /** What it does, a sentence for an operator. */
  readonly meaning: string;
  /** The value is never printed. */
  readonly secret?: true;
}

/** A setting that reads into a T: it has a default or is required, unless T leaves room for neither. */
type SettingOf<T> = Setting & { readonly form: Form<Exclude<T, undefined>> } & (undefined extends T
    ? { readonly default?: never; readonly required?: never }
    : { readonly default: string } | { readonly required: true });

/** A group of settings; a process names the groups that it reads. */
export interface Group {
  readonly title: string;
  readonly settings: Readonly<Record<string, Setting>>;
}

type GroupOf<T> = Group & { readonly settings: { readonly [K in keyof T]: SettingOf<T[K]> } };

/** Every setting there is, in the order in which they are listed. */
export const SETTINGS: { readonly [G in keyof Values]: GroupOf<Values[G]> } = {
  process: {
    title: "Every process",
    settings: {
      logLevel: {
        name: "WEIR_LOG_LEVEL",
        form: oneOf("debug", "info", "warn", "error"),
        default: "info",
        unit: "level",
        meaning: "The least level that is logged: debug, info, warn or error.",
      },
      logFormat: {
        name: "WEIR_LOG_FORMAT",
        form: oneOf("auto", "json", "pretty"),
        default: "auto",
        unit: "word",
        meaning: "json: one object a line; pretty: for people; auto: pretty on a terminal, else json.",
      },
      drainTimeoutMs: {
        name: "WEIR_DRAIN_TIMEOUT",
        form: duration("0s", "10m"),
        default: "15s",
        unit: "duration",
        meaning:
          "How long a stop waits for what is in flight: requests, records being published, a batch being stored.",
      },
      stopTimeoutMs: {
        name: "WEIR_STOP_TIMEOUT",
        form: duration("1s", "15m"),
        default: "25s",
        unit: "duration",
        meaning:
          "How long a whole stop may take; the process then ends at once with status 1. Longer than WEIR_DRAIN_TIMEOUT.",
      },
    },
  },
  http: {
    title: "Server: listening",
    settings: {
      host: {
        name: "WEIR_HOST",
        form: text,
        default: "127.0.0.1",
        unit: "address",
        meaning: "The address that a process listens on; 0.0.0.0 or :: for all.",
      },
      port: {
        name: "WEIR_PORT",
        form: port,
        default: "8080",
        unit: "port",
        meaning: "The one port for Connect, gRPC, gRPC-Web and HTTP. 0 lets the system choose.",
      },
      metricsPort: {
        name: "WEIR_METRICS_PORT",
        form: port,
        unit: "port",
        meaning: "A port of its own for /metrics. Unset: /metrics is served on WEIR_PORT.",
      },
      tlsCertificate: {
        name: "WEIR_TLS_CERT_FILE",
        form: file,
        unit: "path",
        meaning:
          "The certificate chain in PEM. With WEIR_TLS_KEY_FILE it turns on TLS (with ALPN) on WEIR_PORT.",
      },
      tlsKey: {
        name: "WEIR_TLS_KEY_FILE",
        form: file,
        unit: "path",
        meaning: "The private key in PEM that belongs to WEIR_TLS_CERT_FILE.",
      },
      corsOrigins: {
        name: "WEIR_CORS_ORIGINS",
        form: listOf(origin),
        default: "",
        unit: "list of origins",
        meaning:
          "The browser origins that may call, such as https://console.example; * for any. Empty: none.",
      },
      headerTimeoutMs: {
        name: "WEIR_HEADER_TIMEOUT",
        form: duration("100ms", "10m"),
        default: "10s",
        unit: "duration",
        meaning:
          "How long a client may take over a request's headers, or an HTTP/2 connection over its preface.",
      },
      requestTimeoutMs: {
        name: "WEIR_REQUEST_TIMEOUT",
        form: duration("100ms", "1h"),
        default: "30s",
        unit: "duration",
        meaning: "The deadline of a call that brings none.",
      },
      requestTimeoutMaxMs: {
        name: "WEIR_REQUEST_TIMEOUT_MAX",
        form: duration("100ms", "1h"),
        default: "2m",
        unit: "duration",
        meaning: "The longest deadline of a call; a later one is brought forward to it.",
      },
      readLimitBytes: {
        name: "WEIR_READ_LIMIT",
        form: size("64KiB", "256MiB"),
        default: "8MiB",
        unit: "size",
        meaning:
          "The largest message that is read, after decompression. Above the event's limit, as JSON is longer.",
      },
      maxConnections: {
        name: "WEIR_MAX_CONNECTIONS",
        form: integer(1, 1_000_000),
        default: "10000",
        unit: "connections",
        meaning: "How many connections may be open at once; further ones are closed.",
      },
      maxStreams: {
        name: "WEIR_MAX_STREAMS",
        form: integer(1, 1_000_000),
        default: "5000",
        unit: "streams",
        meaning:
          "How many server streams (health Watch, reflection) may be open at once; a further one is UNAVAILABLE.",
      },
      maxStreamDurationMs: {
        name: "WEIR_MAX_STREAM_DURATION",
        form: duration("1s", "30d"),
        default: "1h",
        unit: "duration",
        meaning: "How long one stream may last; clients open it again.",
      },
    },
  },
  jwt: {
    title: "Server: tokens",
    settings: {
      algorithm: {
        name: "WEIR_JWT_ALGORITHM",
        form: oneOf("HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "EdDSA"),
        required: true,
        unit: "algorithm",
        meaning: "The one signature algorithm that is accepted: HS256–512, RS256–512, ES256–512 or EdDSA.",
      },
      secret: {
        name: "WEIR_JWT_SECRET",
        form: text,
        unit: "text",
        secret: true,
        meaning:
          "The shared secret of an HS algorithm; at least 32 bytes for HS256, 48 for HS384, 64 for HS512.",
      },
      publicKey: {
        name: "WEIR_JWT_PUBLIC_KEY",
        form: pem,
        unit: "PEM",
        meaning:
          "The public key (SPKI or X.509) of an RS, ES or EdDSA algorithm. Line breaks may be written as \\n.",
      },
      publicKeyFile: {
        name: "WEIR_JWT_PUBLIC_KEY_FILE",
        form: file.pipe(pem),
        unit: "path",
        meaning: "A file with the public key, instead of WEIR_JWT_PUBLIC_KEY.",
      },
      jwksUrl: {
        name: "WEIR_JWKS_URL",
        form: url("https:", "http:"),
        unit: "URL",
        meaning: "Where the issuer publishes its keys as a JSON Web Key Set, instead of a key given here.",
      },
      issuer: {
        name: "WEIR_JWT_ISSUER",
        form: text,
        unit: "text",
        meaning: "The issuer that a token must name (iss). Unset: not checked.",
      },
      audience: {
        name: "WEIR_JWT_AUDIENCE",
        form: text,
        unit: "text",
        meaning: "The audience that a token must name (aud). Unset: not checked.",
      },
      leewayMs: {
        name: "WEIR_JWT_LEEWAY",
        form: duration("0s", "10m"),
        default: "30s",
        unit: "duration",
        meaning: "How far the issuer's clock may differ from ours.",
      },
    },
  },
  limits: {
    title: "Server: what an event may be",
    settings: {
      eventBytes: {
        name: "WEIR_MAX_EVENT_SIZE",
        // The events topic takes messages of 2 MiB, and a dead letter holds such a message in base64 within 4 MiB.
        form: size("1KiB", "1536KiB"),
        default: "1MiB",
        unit: "size",
        meaning: "The largest event, encoded as a protobuf CloudEvent.",
      },
      sourceBytes: {
        name: "WEIR_MAX_SOURCE_SIZE",
        form: size("1B", "1024B"),
        default: "1024B",
        unit: "size",
        meaning: "The longest source, in UTF-8.",
      },
      subjectBytes: {
        name: "WEIR_MAX_SUBJECT_SIZE",
        form: size("1B", "1024B"),
        default: "1024B",
        unit: "size",
        meaning: "The longest subject, in UTF-8.",
      },
      idBytes: {
        name: "WEIR_MAX_ID_SIZE",
        form: size("1B", "512B"),
        default: "512B",
        unit: "size",
        meaning: "The longest id, in UTF-8.",
      },
      typeBytes: {
        name: "WEIR_MAX_TYPE_SIZE",
        form: size("1B", "256B"),
        default: "256B",
        unit: "size",
        meaning: "The longest type, in UTF-8.",
      },
      attributeNameBytes: {
        name: "WEIR_MAX_ATTRIBUTE_NAME_SIZE",
        form: size("1B", "256B"),
        default: "40B",
        unit: "size",
        meaning: "The longest name of an extension attribute.",
      },
      attributeValueBytes: {
        name: "WEIR_MAX_ATTRIBUTE_SIZE",
        form: size("1B", "64KiB"),
        default: "4KiB",
        unit: "size",
        meaning: "The longest value of any other attribute, in UTF-8.",
      },
      extensions: {
        name: "WEIR_MAX_EXTENSIONS",
        form: integer(0, 256),
        default: "64",
        unit: "attributes",
        meaning: "How many extension attributes an event may have.",
      },
      futureMs: {
        name: "WEIR_TIME_WINDOW_FUTURE",
        form: duration("0s", "90d"),
        default: "24h",
        unit: "duration",
        meaning: "How far ahead of the server's clock an event's time may be.",
      },
      pastMs: {
        name: "WEIR_TIME_WINDOW_PAST",
        // The store keeps partitions from four months back; an older row would fall into the default partition.
        form: duration("1s", "120d"),
        default: "90d",
        unit: "duration",
        meaning: "How far behind the server's clock an event's time may be.",
      },
    },
  },
  database: {
    title: "PostgreSQL",
    settings: {
      url: {
        name: "WEIR_DATABASE_URL",
        form: url("postgres:", "postgresql:"),
        required: true,
        unit: "URL",
        secret: true,
        meaning: "The database, postgres://user:password@host:5432/weir; TLS by ?sslmode=verify-full.",
      },
      poolSize: {
        name: "WEIR_DATABASE_POOL",
        form: integer(1, 1_000),
        default: "8",
        unit: "connections",
        meaning: "The most connections that a process holds for writing.",
      },
      connectTimeoutMs: {
        name: "WEIR_DATABASE_CONNECT_TIMEOUT",
        form: duration("100ms", "5m"),
        default: "5s",
        unit: "duration",
        meaning: "How long to wait for a connection, a free one or a new one.",
      },
      statementTimeoutMs: {
        name: "WEIR_DATABASE_STATEMENT_TIMEOUT",
        form: duration("100ms", "1h"),
        default: "30s",
        unit: "duration",
        meaning: "How long one statement that writes may run.",
      },
    },
  },
  search: {
    title: "Server: reading",
    settings: {
      databaseUrl: {
        name: "WEIR_READ_DATABASE_URL",
        form: url("postgres:", "postgresql:"),
        unit: "URL",
        secret: true,
        meaning: "Where reads go, such as a replica. Unset: WEIR_DATABASE_URL.",
      },
      poolSize: {
        name: "WEIR_READ_DATABASE_POOL",
        form: integer(1, 1_000),
        default: "8",
        unit: "connections",
        meaning: "The most connections that a server holds for reading.",
      },
      statementTimeoutMs: {
        name: "WEIR_READ_DATABASE_STATEMENT_TIMEOUT",
        form: duration("100ms", "5m"),
        default: "2s",
        unit: "duration",
        meaning: "How long one statement that reads may run.",
      },
      concurrency: {
        name: "WEIR_SEARCH_CONCURRENCY",
        form: integer(1, 1_000),
        default: "8",
        unit: "searches",
        meaning: "How many reads run at once. No more than WEIR_READ_DATABASE_POOL has connections.",
      },
      queue: {
        name: "WEIR_SEARCH_QUEUE",
        form: integer(0, 100_000),
        default: "64",
        unit: "searches",
        meaning: "How many reads may wait for their turn; a further one is UNAVAILABLE.",
      },
      queueWaitMs: {
        name: "WEIR_SEARCH_QUEUE_WAIT",
        form: duration("0s", "1m"),
        default: "1s",
        unit: "duration",
        meaning: "How long a read may wait for its turn before it is UNAVAILABLE.",
      },
    },
  },
  kafka: {
    title: "Kafka",
    settings: {
      brokers: {
        name: "WEIR_KAFKA_BROKERS",
        form: listOf(hostPort).refine((brokers) => brokers.length > 0, "must name at least one broker"),
        required: true,
        unit: "list of host:port",
        meaning: "The brokers to begin with, such as kafka-1:9092,kafka-2:9092.",
      },
      clientId: {
        name: "WEIR_KAFKA_CLIENT_ID",
        form: kafkaName,
        default: "weir",
        unit: "text",
        meaning: "The name that the brokers see in their logs and quotas.",
      },
      tls: {
        name: "WEIR_KAFKA_TLS",
        form: flag,
        default: "false",
        unit: "true or false",
        meaning: "Whether to speak TLS with the brokers; their certificates are verified.",
      },
      ca: {
        name: "WEIR_KAFKA_CA_FILE",
        form: file,
        unit: "path",
        meaning:
          "The certificate authority of the brokers in PEM, where it is not a public one. Needs WEIR_KAFKA_TLS.",
      },
      saslMechanism: {
        name: "WEIR_KAFKA_SASL_MECHANISM",
        form: oneOf("plain", "scram-sha-256", "scram-sha-512"),
        unit: "word",
        meaning: "How to log in: plain, scram-sha-256 or scram-sha-512. Unset: no login.",
      },
      username: {
        name: "WEIR_KAFKA_USERNAME",
        form: text,
        unit: "text",
        meaning: "The user to log in as. Needs WEIR_KAFKA_SASL_MECHANISM.",
      },
      password: {
        name: "WEIR_KAFKA_PASSWORD",
        form: text,
        unit: "text",
        secret: true,
        meaning: "The user's password.",
      },
      connectTimeoutMs: {
        name: "WEIR_KAFKA_CONNECT_TIMEOUT",
        form: duration("100ms", "5m"),
        default: "3s",
        unit: "duration",
        meaning: "How long to wait for a connection to a broker.",
      },
      requestTimeoutMs: {
        name: "WEIR_KAFKA_REQUEST_TIMEOUT",
        form: duration("1s", "5m"),
        default: "10s",
        unit: "duration",
        meaning: "How long to wait for a broker's answer.",
      },
    },
  },
  topics: {
    title: "Topics",
    settings: {
      replication: {
        name: "WEIR_TOPIC_REPLICATION",
        form: integer(1, 9),
        unit: "copies",
        meaning: "The copies of each topic that Weir makes. Unset: three, or as many as there are brokers.",
      },
      events: {
        name: "WEIR_TOPIC_EVENTS",
        form: kafkaName,
        default: "weir.events.v1",
        unit: "topic",
        meaning: "The topic of the events.",
      },
      eventsPartitions: {
        name: "WEIR_TOPIC_EVENTS_PARTITIONS",
        form: integer(1, 1_000),
        default: "12",
        unit: "partitions",
        meaning:
          "Its partitions. Changing them moves keys to other partitions: order across the change is lost.",
      },
      eventsRetentionMs: {
        name: "WEIR_TOPIC_EVENTS_RETENTION",
        form: duration("1m", "3650d"),
        default: "7d",
        unit: "duration",
        meaning: "How long the log keeps an event (PostgreSQL keeps it longer).",
      },
      deadLetters: {
        name: "WEIR_TOPIC_DEAD_LETTERS",
        form: kafkaName,
        default: "weir.events.v1.dlq",
        unit: "topic",
        meaning: "The topic of the dead letters.",
      },
      deadLettersPartitions: {
        name: "WEIR_TOPIC_DEAD_LETTERS_PARTITIONS",
        form: integer(1, 1_000),
        default: "3",
        unit: "partitions",
        meaning: "Its partitions.",
      },
      deadLettersRetentionMs: {
        name: "WEIR_TOPIC_DEAD_LETTERS_RETENTION",
        form: duration("1m", "3650d"),
        default: "30d",
        unit: "duration",
        meaning: "How long a dead letter is kept.",
      },
    },
  },
  producer: {
    title: "Publishing",
    settings: {
      queueRecords: {
        name: "WEIR_PRODUCER_QUEUE",
        form: integer(1, 1_000_000),
        default: "1024",
        unit: "records",
        meaning: "How many records may wait or be in flight; a further one is refused with UNAVAILABLE.",
      },
      queueBytes: {
        name: "WEIR_PRODUCER_QUEUE_SIZE",
        form: size("2MiB", "16GiB"),
        default: "64MiB",
        unit: "size",
        meaning: "How much they may hold together.",
      },
      publishTimeoutMs: {
        name: "WEIR_PUBLISH_TIMEOUT",
        form: duration("100ms", "5m"),
        default: "10s",
        unit: "duration",
        meaning: "How long a record may take from the queue to its acknowledgement.",
      },
    },
  },
  workers: {
    title: "Workers",
    settings: {
      roles: {
        name: "WEIR_WORKER_ROLES",
        form: listOf(oneOf("persist", "maintain")).refine(
          (roles) => roles.length > 0,
          "must name at least one role",
        ),
        default: "persist,maintain",
        unit: "list of roles",
        meaning:
          "What this process does: persist (the log into PostgreSQL), maintain (partitions made ahead).",
      },
      port: {
        name: "WEIR_WORKERS_PORT",
        form: port,
        unit: "port",
        meaning: "A port for the workers' /healthz, /readyz and /metrics, on WEIR_HOST. Unset: none.",
      },
      persistGroup: {
        name: "WEIR_PERSIST_GROUP",
        form: kafkaName,
        default: "weir.persist.v1",
        unit: "consumer group",
        meaning: "The consumer group of the persist role.",
      },
      persistBatchRecords: {
        name: "WEIR_PERSIST_BATCH",
        form: integer(1, 10_000),
        default: "500",
        unit: "records",
        meaning: "The most records that are stored in one transaction.",
      },
      persistBatchWaitMs: {
        name: "WEIR_PERSIST_BATCH_WAIT",
        form: duration("0ms", "10s"),
        default: "250ms",
        unit: "duration",
        meaning: "How long records are gathered while a partition brings more; at once when it is drained.",
      },
    },
  },
};
