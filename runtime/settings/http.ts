import { duration, file, integer, listOf, origin, port, size } from "./forms.ts";
import { type Group } from "./setting.ts";

interface Values {
  readonly processes: number;
  readonly port: number;
  readonly metricsPort: number | undefined;
  readonly tlsCertificate: string | undefined;
  readonly tlsKey: string | undefined;
  readonly corsOrigins: readonly string[];
  readonly headerTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly requestTimeoutMaxMs: number;
  readonly readLimitBytes: number;
  readonly bodyMemoryBytes: number;
  readonly maxHeaderBytes: number;
  readonly maxConnections: number;
  readonly maxStreams: number;
  readonly maxStreamDurationMs: number;
  readonly stopDelayMs: number;
}

/** How the server listens. Times in milliseconds, sizes in bytes. */
export interface HttpConfig extends Omit<Values, "tlsCertificate" | "tlsKey"> {
  /** The certificate chain and its private key, in PEM. */
  readonly tls: { readonly certificate: string; readonly key: string } | undefined;
}

/** The settings behind {@link HttpConfig}. */
export const HTTP: Group<Values, HttpConfig> = {
  title: "Server: listening",
  settings: {
    processes: {
      name: "WEIR_SERVER_PROCESSES",
      form: integer(1, 256),
      default: "1",
      unit: "processes",
      meaning:
        "How many processes serve WEIR_PORT. Every limit, queue and pool is that of one process. Above 1, WEIR_METRICS_PORT must be set.",
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
      meaning:
        "A port of its own for /metrics. Unset: /metrics is served on WEIR_PORT. Of several processes, each further one has the next port.",
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
      meaning: "The browser origins that may call, such as https://console.example; * for any. Empty: none.",
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
      // Above the largest WEIR_MAX_EVENT_SIZE, so that too large an event is refused as such, with its limit.
      form: size("2MiB", "256MiB"),
      default: "16MiB",
      unit: "size",
      meaning:
        "The largest message that is read, after decompression. Above the limits of an event and a batch, as JSON is longer.",
    },
    bodyMemoryBytes: {
      name: "WEIR_MAX_BODY_MEMORY",
      form: size("2MiB", "64GiB"),
      default: "256MiB",
      unit: "size",
      meaning:
        "What all request bodies that a process is reading may hold together, as they came and inflated; a further one is UNAVAILABLE. At least twice WEIR_READ_LIMIT.",
    },
    maxHeaderBytes: {
      name: "WEIR_MAX_HEADER_SIZE",
      form: size("16KiB", "1MiB"),
      default: "128KiB",
      unit: "size",
      meaning:
        "The largest headers of a request. They bound the attributes of an event in HTTP's binary mode; what a proxy takes may be less.",
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
        "How many streams may be open at once; a further one is UNAVAILABLE. Health and reflection, which are open to all, have a tenth.",
    },
    maxStreamDurationMs: {
      name: "WEIR_MAX_STREAM_DURATION",
      form: duration("1s", "30d"),
      default: "1h",
      unit: "duration",
      meaning: "How long one stream may last; clients open it again.",
    },
    stopDelayMs: {
      name: "WEIR_STOP_DELAY",
      form: duration("0s", "5m"),
      default: "1s",
      unit: "duration",
      meaning:
        "How long a stopping server that is no longer ready still takes connections, for load balancers to notice.",
    },
  },
  rules: [
    {
      of: ["requestTimeoutMs", "requestTimeoutMaxMs"],
      judge({ requestTimeoutMs, requestTimeoutMaxMs }, report) {
        if (requestTimeoutMs > requestTimeoutMaxMs) {
          report("WEIR_REQUEST_TIMEOUT", "must not be longer than WEIR_REQUEST_TIMEOUT_MAX");
        }
      },
    },
    {
      of: ["bodyMemoryBytes", "readLimitBytes"],
      judge({ bodyMemoryBytes, readLimitBytes }, report) {
        if (bodyMemoryBytes < 2 * readLimitBytes) {
          report("WEIR_MAX_BODY_MEMORY", "must not be smaller than twice WEIR_READ_LIMIT");
        }
      },
    },
    {
      of: ["tlsCertificate", "tlsKey"],
      judge({ tlsCertificate, tlsKey }, report) {
        if (tlsCertificate === undefined && tlsKey !== undefined) {
          report("WEIR_TLS_CERT_FILE", "must be set where WEIR_TLS_KEY_FILE is");
        }
        if (tlsCertificate !== undefined && tlsKey === undefined) {
          report("WEIR_TLS_KEY_FILE", "must be set where WEIR_TLS_CERT_FILE is");
        }
      },
    },
    {
      of: ["processes", "metricsPort"],
      judge({ processes, metricsPort }, report) {
        if (processes > 1 && !(metricsPort !== undefined && metricsPort > 0)) {
          report(
            "WEIR_METRICS_PORT",
            "must be set, and not to 0, where WEIR_SERVER_PROCESSES is above 1: each process has metrics of its own, on a port of its own",
          );
        } else if (metricsPort !== undefined && metricsPort + processes - 1 > 65_535) {
          report("WEIR_METRICS_PORT", "leaves no port for the last of WEIR_SERVER_PROCESSES");
        }
      },
    },
  ],
  join({ tlsCertificate, tlsKey, ...values }) {
    const tls =
      tlsCertificate === undefined || tlsKey === undefined
        ? undefined
        : { certificate: tlsCertificate, key: tlsKey };
    return { ...values, tls };
  },
};
