import { duration, file, flag, hostPort, kafkaName, listOf, oneOf, text } from "./forms.ts";
import { type Group } from "./setting.ts";

type SaslMechanism = "plain" | "scram-sha-256" | "scram-sha-512";

type KafkaClientName = "kafkajs" | "platformatic";

interface Values {
  readonly client: KafkaClientName;
  readonly brokers: readonly string[];
  readonly clientId: string;
  readonly tls: boolean;
  readonly ca: string | undefined;
  readonly saslMechanism: SaslMechanism | undefined;
  readonly username: string | undefined;
  readonly password: string | undefined;
  readonly connectTimeoutMs: number;
  readonly requestTimeoutMs: number;
}

/** How the brokers are reached. Times in milliseconds. */
export interface KafkaConfig extends Omit<Values, "tls" | "ca" | "saslMechanism" | "username" | "password"> {
  /** undefined: plain TCP. `ca`: the brokers' certificate authority in PEM, where it is not a public one. */
  readonly tls: { readonly ca: string | undefined } | undefined;
  readonly sasl:
    | { readonly mechanism: SaslMechanism; readonly username: string; readonly password: string }
    | undefined;
}

/** The settings behind {@link KafkaConfig}. */
export const KAFKA: Group<Values, KafkaConfig> = {
  title: "Kafka",
  settings: {
    client: {
      name: "WEIR_KAFKA_CLIENT",
      form: oneOf("platformatic", "kafkajs"),
      default: "platformatic",
      unit: "word",
      meaning:
        "The library that speaks to Kafka: platformatic or kafkajs. Workers that run different ones share their group.",
    },
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
  rules: [
    {
      of: ["ca", "tls"],
      judge({ ca, tls }, report) {
        if (ca !== undefined && !tls) report("WEIR_KAFKA_CA_FILE", "needs WEIR_KAFKA_TLS=true");
      },
    },
    {
      of: ["saslMechanism", "username", "password"],
      judge({ saslMechanism: mechanism, username, password }, report) {
        const login = [
          ["WEIR_KAFKA_USERNAME", username],
          ["WEIR_KAFKA_PASSWORD", password],
        ] as const;
        for (const [name, value] of login) {
          if (mechanism === undefined && value !== undefined) report(name, "needs WEIR_KAFKA_SASL_MECHANISM");
          if (mechanism !== undefined && value === undefined)
            report(name, "must be set where WEIR_KAFKA_SASL_MECHANISM is");
        }
      },
    },
  ],
  join({ tls, ca, saslMechanism: mechanism, username, password, ...values }) {
    const sasl =
      mechanism === undefined || username === undefined || password === undefined
        ? undefined
        : { mechanism, username, password };
    return { ...values, tls: tls ? { ca } : undefined, sasl };
  },
};
