/** How to reach the brokers. Durations are milliseconds. */
export interface ConnectionOptions {
  /** The brokers to begin with, `host:port`; the others are learnt from them. */
  readonly brokers: readonly string[];
  /** What the brokers call us in their logs and quotas. */
  readonly clientId: string;
  /** Speak TLS and verify the brokers' certificates, by the given authority (PEM) or the public ones. */
  readonly tls: { readonly ca: string | undefined } | undefined;
  readonly sasl:
    | {
        readonly mechanism: "plain" | "scram-sha-256" | "scram-sha-512";
        readonly username: string;
        readonly password: string;
      }
    | undefined;
  readonly connectTimeoutMs: number;
  /** How long a broker may take over one request. */
  readonly requestTimeoutMs: number;
}
