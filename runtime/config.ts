import { type Group, type JwtAlgorithm, type Setting, SETTINGS, type Values } from "./settings.ts";

/** Variables by name, as `process.env` has them. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Where the key that verifies tokens comes from. */
export type JwtKeySource =
  | { readonly kind: "secret"; readonly secret: string }
  | { readonly kind: "publicKey"; readonly pem: string }
  | { readonly kind: "jwks"; readonly url: string };

/**
 * All settings, checked and typed, with what belongs together joined. Durations are milliseconds, sizes are bytes;
 * certificates and keys are their PEM text.
 */
export interface Config extends Omit<Values, "http" | "jwt" | "kafka"> {
  readonly http: Omit<Values["http"], "tlsCertificate" | "tlsKey"> & {
    readonly tls: { readonly certificate: string; readonly key: string } | undefined;
  };
  readonly jwt: Pick<Values["jwt"], "issuer" | "audience" | "leewayMs"> & {
    readonly algorithm: JwtAlgorithm;
    readonly key: JwtKeySource;
  };
  readonly kafka: Pick<Values["kafka"], "brokers" | "clientId" | "connectTimeoutMs" | "requestTimeoutMs"> & {
    readonly tls: { readonly ca: string | undefined } | undefined;
    readonly sasl:
      | {
          readonly mechanism: NonNullable<Values["kafka"]["saslMechanism"]>;
          readonly username: string;
          readonly password: string;
        }
      | undefined;
  };
}

/** What is wrong with one variable. Never holds the value of a secret. */
export interface ConfigFault {
  readonly name: string;
  readonly problem: string;
}

/** The environment cannot be used; the message has a line for every variable at fault. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
  readonly faults: readonly ConfigFault[];

  constructor(faults: readonly ConfigFault[]) {
    const lines = faults.map((fault) => `  ${fault.name} ${fault.problem}`);
    super(`The configuration cannot be used (\`npm run config\` lists all settings):\n${lines.join("\n")}`);
    this.faults = faults;
  }
}

/** Takes note of a fault; reading goes on so that all are found. */
type Report = (name: string, problem: string) => void;

/**
 * Reads the groups of settings that a process needs, out of its environment. A variable that is set to nothing counts as unset.
 *
 * @throws ConfigError that names every variable at fault, not the first alone.
 */
export function loadConfig<G extends keyof Config>(
  groups: readonly G[],
  env: Environment = process.env,
): Pick<Config, G> {
  const faults: ConfigFault[] = [];
  const report: Report = (name, problem) => faults.push({ name, problem });
  const entries = groups.map((group) => [group, readGroup(env, group, report)] as const);
  if (faults.length > 0) throw new ConfigError(faults);
  return Object.fromEntries(entries) as Pick<Config, G>;
}

/** A setting's text in the environment, or undefined where it is unset or empty. */
export function settingText(env: Environment, setting: Setting): string | undefined {
  const value = env[setting.name];
  return value === undefined || value.trim() === "" ? undefined : value;
}

function readGroup(env: Environment, name: keyof Config, report: Report): Config[keyof Config] | undefined {
  const group: Group = SETTINGS[name];
  let whole = true;
  const values: Record<string, unknown> = {};
  for (const [key, setting] of Object.entries(group.settings)) {
    const text = settingText(env, setting) ?? setting.default;
    if (text === undefined) {
      values[key] = undefined;
      if (setting.required !== true) continue;
      report(setting.name, `is not set. ${setting.meaning}`);
      whole = false;
      continue;
    }
    const read = setting.form.safeParse(text);
    if (read.success) values[key] = read.data;
    else {
      whole = false;
      for (const { path, message } of read.error.issues) {
        const [index] = path;
        report(setting.name, typeof index === "number" ? `(item ${index + 1}) ${message}` : message);
      }
    }
  }
  // A rule across settings means little where one of them could not be read.
  if (!whole) return undefined;
  const join = JOINS[name] as (values: unknown, report: Report) => Config[keyof Config] | undefined;
  return join(values, report);
}

/** What holds across the settings of a group, and how they become its part of the Config. */
const JOINS: { readonly [G in keyof Config]: (values: Values[G], report: Report) => Config[G] | undefined } =
  {
    process(values, report) {
      if (values.drainTimeoutMs >= values.stopTimeoutMs) {
        report("WEIR_STOP_TIMEOUT", "must be longer than WEIR_DRAIN_TIMEOUT");
      }
      return values;
    },
    http({ tlsCertificate, tlsKey, ...values }, report) {
      if (values.requestTimeoutMs > values.requestTimeoutMaxMs) {
        report("WEIR_REQUEST_TIMEOUT", "must not be longer than WEIR_REQUEST_TIMEOUT_MAX");
      }
      if (tlsCertificate === undefined && tlsKey !== undefined) {
        report("WEIR_TLS_CERT_FILE", "must be set where WEIR_TLS_KEY_FILE is");
      }
      if (tlsCertificate !== undefined && tlsKey === undefined) {
        report("WEIR_TLS_KEY_FILE", "must be set where WEIR_TLS_CERT_FILE is");
      }
      const tls =
        tlsCertificate === undefined || tlsKey === undefined
          ? undefined
          : { certificate: tlsCertificate, key: tlsKey };
      return { ...values, tls };
    },
    jwt({ algorithm, secret, publicKey, publicKeyFile, jwksUrl, issuer, audience, leewayMs }, report) {
      const sources: readonly (readonly [string, JwtKeySource | undefined])[] = [
        ["WEIR_JWT_SECRET", secret === undefined ? undefined : { kind: "secret", secret }],
        ["WEIR_JWT_PUBLIC_KEY", publicKey === undefined ? undefined : { kind: "publicKey", pem: publicKey }],
        [
          "WEIR_JWT_PUBLIC_KEY_FILE",
          publicKeyFile === undefined ? undefined : { kind: "publicKey", pem: publicKeyFile },
        ],
        ["WEIR_JWKS_URL", jwksUrl === undefined ? undefined : { kind: "jwks", url: jwksUrl }],
      ];
      const set = sources.filter(([, source]) => source !== undefined);
      const symmetric = algorithm.startsWith("HS");
      const [first, second] = set;
      const key = first?.[1];
      if (first === undefined || key === undefined) {
        const wanted = symmetric
          ? "WEIR_JWT_SECRET"
          : "WEIR_JWT_PUBLIC_KEY, WEIR_JWT_PUBLIC_KEY_FILE or WEIR_JWKS_URL";
        report("WEIR_JWT_ALGORITHM", `is ${algorithm}, so the key must be set: ${wanted}`);
        return undefined;
      }
      if (second !== undefined) {
        report(
          second[0],
          `must not be set beside ${first[0]}: tokens are verified by exactly one source of keys`,
        );
        return undefined;
      }
      if (symmetric !== (key.kind === "secret")) {
        report(first[0], `does not go with WEIR_JWT_ALGORITHM ${algorithm}`);
      }
      if (key.kind === "secret" && symmetric) {
        // RFC 7518 section 3.2: a key as long as the hash's output, or longer.
        const least = Number(algorithm.slice(2)) / 8;
        const actual = Buffer.byteLength(key.secret);
        if (actual < least)
          report(first[0], `must be at least ${least} bytes for ${algorithm} and has ${actual}`);
      }
      return { algorithm, key, issuer, audience, leewayMs };
    },
    kafka({ tls, ca, saslMechanism, username, password, ...values }, report) {
      if (ca !== undefined && !tls) report("WEIR_KAFKA_CA_FILE", "needs WEIR_KAFKA_TLS=true");
      if (saslMechanism === undefined) {
        if (username !== undefined) report("WEIR_KAFKA_USERNAME", "needs WEIR_KAFKA_SASL_MECHANISM");
        if (password !== undefined) report("WEIR_KAFKA_PASSWORD", "needs WEIR_KAFKA_SASL_MECHANISM");
      } else {
        if (username === undefined)
          report("WEIR_KAFKA_USERNAME", "must be set where WEIR_KAFKA_SASL_MECHANISM is");
        if (password === undefined)
          report("WEIR_KAFKA_PASSWORD", "must be set where WEIR_KAFKA_SASL_MECHANISM is");
      }
      const sasl =
        saslMechanism === undefined || username === undefined || password === undefined
          ? undefined
          : { mechanism: saslMechanism, username, password };
      return { ...values, tls: tls ? { ca } : undefined, sasl };
    },
    search(values, report) {
      if (values.concurrency > values.poolSize) {
        report("WEIR_SEARCH_CONCURRENCY", "must not be above WEIR_READ_DATABASE_POOL");
      }
      return values;
    },
    limits: (values) => values,
    database: (values) => values,
    topics: (values) => values,
    producer: (values) => values,
    workers: (values) => values,
  };

/** One line for each WEIR_ variable that no setting reads, with the name that may have been meant. */
export function unknownVariables(env: Environment = process.env): readonly string[] {
  const known = Object.values<Group>(SETTINGS).flatMap((group) =>
    Object.values(group.settings).map((setting) => setting.name as string),
  );
  return Object.keys(env)
    .filter((name) => name.startsWith("WEIR_") && !FOREIGN.test(name) && !known.includes(name))
    .sort()
    .map((name) => {
      const nearest = known
        .map((other) => [distance(name, other), other] as const)
        .sort(([a], [b]) => a - b)[0];
      const hint = nearest !== undefined && nearest[0] <= 3 ? `; did you mean ${nearest[1]}?` : "";
      return `${name} is not a setting and is ignored${hint}`;
    });
}

/** The launcher's and the tests' own variables, which child processes inherit. */
const FOREIGN = /^WEIR_(DEV|TEST)_/;

/** How many letters must be put in, left out or changed to make one word of the other (Levenshtein). */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (const [i, letter] of [...a].entries()) {
    const next = [i + 1];
    for (const [j, other] of [...b].entries()) {
      next.push(
        Math.min((row[j] ?? 0) + (letter === other ? 0 : 1), (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1),
      );
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
