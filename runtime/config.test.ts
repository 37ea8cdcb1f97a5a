import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { ConfigError, type ConfigFault, type Environment, loadConfig, unknownVariables } from "./config.ts";
import { SETTINGS } from "./settings.ts";

type GroupName = keyof typeof SETTINGS;

const ALL = Object.keys(SETTINGS) as readonly GroupName[];
const SECRET = "0123456789abcdef0123456789abcdef";
const LEAST: Environment = {
  WEIR_DATABASE_URL: "postgres://weir:swordfish@db/weir",
  WEIR_KAFKA_BROKERS: "kafka-1:9092",
  WEIR_JWT_ALGORITHM: "HS256",
  WEIR_JWT_SECRET: SECRET,
};
const PEM = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n-----END PUBLIC KEY-----";

function faultsOf(groups: readonly GroupName[], env: Environment): readonly ConfigFault[] {
  try {
    loadConfig(groups, env);
  } catch (error) {
    if (error instanceof ConfigError) return error.faults;
    throw error;
  }
  return [];
}

const namesOf = (groups: readonly GroupName[], env: Environment): readonly string[] =>
  faultsOf(groups, env).map((fault) => fault.name);

const folder = mkdtempSync(join(tmpdir(), "weir-config-"));
afterAll(() => rmSync(folder, { recursive: true }));

describe("loadConfig", () => {
  it("tells a fault once, however often its group is asked for", () => {
    const env = { ...LEAST, WEIR_LOG_LEVEL: "loud" };
    expect(namesOf(["process", "http", "process"], env)).toEqual(["WEIR_LOG_LEVEL"]);
  });

  it("needs four variables, and has a default for the rest", () => {
    expect(namesOf(ALL, {})).toEqual(["WEIR_JWT_ALGORITHM", "WEIR_KAFKA_BROKERS", "WEIR_DATABASE_URL"]);
    const config = loadConfig(ALL, LEAST);
    expect(config.http).toMatchObject({
      port: 8080,
      metricsPort: undefined,
      tls: undefined,
      corsOrigins: [],
    });
    expect(config.limits).toMatchObject({ eventBytes: 1_048_576, timeAheadMs: 86_400_000 });
    expect(config.topics).toMatchObject({ events: "weir.events.v1", eventsRetentionMs: 7 * 86_400_000 });
    expect(config.jwt).toEqual({
      algorithm: "HS256",
      key: { kind: "secret", secret: SECRET },
      issuer: undefined,
      audience: undefined,
      leewayMs: 30_000,
    });
  });

  it("has no default that its own form refuses", () => {
    // LEAST sets nothing that has a default, so every default went through its form.
    const withDefault = ALL.flatMap((group) => Object.values(SETTINGS[group].settings)).filter(
      (setting) => "default" in setting,
    );
    expect(withDefault.length).toBeGreaterThan(30);
    expect(withDefault.filter((setting) => setting.name in LEAST)).toEqual([]);
    expect(faultsOf(ALL, LEAST)).toEqual([]);
  });

  it("reads only the groups that are asked for", () => {
    expect(loadConfig(["producer"], {})).toEqual({
      producer: {
        compression: "none",
        queueRecords: 8192,
        queueBytes: 64 * 1024 ** 2,
        publishTimeoutMs: 10_000,
      },
    });
  });

  it("names every bad variable at once", () => {
    const names = namesOf(ALL, {
      ...LEAST,
      WEIR_LOG_LEVEL: "loud",
      WEIR_PORT: "99999",
      WEIR_CORS_ORIGINS: "https://a.example, https://b.example/",
      WEIR_REQUEST_TIMEOUT: "30",
      WEIR_MAX_EVENT_SIZE: "2MB",
      WEIR_KAFKA_BROKERS: "kafka-1",
      WEIR_KAFKA_TLS: "yes",
      WEIR_DATABASE_URL: "mysql://db/weir",
      WEIR_WORKER_ROLES: "persist,relax",
    });
    expect(names).toEqual([
      "WEIR_LOG_LEVEL",
      "WEIR_PORT",
      "WEIR_CORS_ORIGINS",
      "WEIR_REQUEST_TIMEOUT",
      "WEIR_MAX_EVENT_SIZE",
      "WEIR_KAFKA_BROKERS",
      "WEIR_KAFKA_TLS",
      "WEIR_DATABASE_URL",
      "WEIR_WORKER_ROLES",
    ]);
  });

  it("judges what it can where a setting beside it cannot be read", () => {
    expect(
      namesOf(ALL, {
        ...LEAST,
        WEIR_DRAIN_TIMEOUT: "20s",
        WEIR_STOP_TIMEOUT: "10s",
        WEIR_LOG_LEVEL: "loud",
        WEIR_JWT_ALGORITHM: "HS255",
        WEIR_JWT_SECRET: "short",
        WEIR_PORT: "99999",
        WEIR_TLS_KEY_FILE: import.meta.filename,
        WEIR_KAFKA_BROKERS: "kafka-1",
        WEIR_KAFKA_USERNAME: "weir",
      }).toSorted(),
    ).toEqual([
      "WEIR_JWT_ALGORITHM",
      "WEIR_JWT_SECRET",
      "WEIR_KAFKA_BROKERS",
      "WEIR_KAFKA_USERNAME",
      "WEIR_LOG_LEVEL",
      "WEIR_PORT",
      "WEIR_STOP_TIMEOUT",
      "WEIR_TLS_CERT_FILE",
    ]);
    const keys = { WEIR_JWT_PUBLIC_KEY: PEM, WEIR_JWKS_URL: "https://issuer/jwks" };
    expect(namesOf(["jwt"], { WEIR_JWT_ALGORITHM: "none", ...keys })).toEqual([
      "WEIR_JWT_ALGORITHM",
      "WEIR_JWKS_URL",
    ]);
    // Of a bad value nothing more is said.
    expect(namesOf(["process"], { WEIR_DRAIN_TIMEOUT: "long", WEIR_STOP_TIMEOUT: "1s" })).toEqual([
      "WEIR_DRAIN_TIMEOUT",
    ]);
  });

  it("says which item of a list is bad", () => {
    expect(faultsOf(["workers"], { WEIR_WORKER_ROLES: "persist, relax" })).toEqual([
      { name: "WEIR_WORKER_ROLES", problem: "(item 2) must be one of persist, index, redrive, maintain" },
    ]);
  });

  it("reads a period by the calendar, and refuses one that is shorter than what the store must have", () => {
    const read = (retention: string) =>
      loadConfig(["maintenance"], { WEIR_RETENTION: retention }).maintenance;
    expect(read("13mo")).toMatchObject({ retention: { months: 13, days: 0 }, retentionDrop: false });
    expect(read("124 d").retention).toEqual({ months: 0, days: 124 });
    expect(read("").retention).toBeUndefined();
    for (const bad of ["3mo", "123d", "0mo", "13", "1y", "13m", "1201mo", "-5mo", "1.5mo", "99999d"]) {
      const problem: unknown = expect.stringContaining("at least 4mo or 124d");
      const faults = faultsOf(["maintenance"], { WEIR_RETENTION: bad });
      expect({ bad, faults }).toEqual({ bad, faults: [{ name: "WEIR_RETENTION", problem }] });
    }
  });

  it("takes a variable that is set to nothing as unset", () => {
    expect(loadConfig(["http"], { WEIR_PORT: "", WEIR_METRICS_PORT: " " }).http).toMatchObject({
      port: 8080,
      metricsPort: undefined,
    });
  });

  it.each([
    ["250ms", 250],
    ["30s", 30_000],
    ["2m", 120_000],
    ["1h", 3_600_000],
    [" 5 s ", 5_000],
  ])("reads the duration %j as %d ms", (text, expected) => {
    expect(
      loadConfig(["http"], {
        WEIR_HEADER_TIMEOUT: "1s",
        WEIR_REQUEST_TIMEOUT_MAX: "1h",
        WEIR_REQUEST_TIMEOUT: text,
      }).http.requestTimeoutMs,
    ).toBe(expected);
  });

  it.each(["30", "-1s", "1.5s", "30 parsecs", "s", "1e3s", "99999999999999999999s", "30S", "10h"])(
    "does not read %j as a duration of up to 5m",
    (text) => {
      expect(namesOf(["producer"], { WEIR_PUBLISH_TIMEOUT: text })).toEqual(["WEIR_PUBLISH_TIMEOUT"]);
    },
  );

  it("joins what belongs together", () => {
    const [certificate, key] = [join(folder, "cert.pem"), join(folder, "key.pem")];
    writeFileSync(certificate, "CERT");
    writeFileSync(key, "KEY");
    const env: Environment = {
      ...LEAST,
      WEIR_TLS_CERT_FILE: certificate,
      WEIR_TLS_KEY_FILE: key,
      WEIR_KAFKA_TLS: "true",
      WEIR_KAFKA_CA_FILE: certificate,
      WEIR_KAFKA_SASL_MECHANISM: "scram-sha-512",
      WEIR_KAFKA_USERNAME: "weir",
      WEIR_KAFKA_PASSWORD: "swordfish",
    };
    const config = loadConfig(["http", "kafka"], env);
    expect(config.http.tls).toEqual({ certificate: "CERT", key: "KEY" });
    expect(config.kafka.tls).toEqual({ ca: "CERT" });
    expect(config.kafka.sasl).toEqual({
      mechanism: "scram-sha-512",
      username: "weir",
      password: "swordfish",
    });
  });

  it.each<[string, readonly GroupName[], Environment, readonly string[]]>([
    [
      "a key without its certificate",
      ["http"],
      { WEIR_TLS_KEY_FILE: import.meta.filename },
      ["WEIR_TLS_CERT_FILE"],
    ],
    [
      "a certificate without its key",
      ["http"],
      { WEIR_TLS_CERT_FILE: import.meta.filename },
      ["WEIR_TLS_KEY_FILE"],
    ],
    [
      "several processes without metrics ports",
      ["http"],
      { WEIR_SERVER_PROCESSES: "2" },
      ["WEIR_METRICS_PORT"],
    ],
    [
      "several processes on a metrics port of the system's choice",
      ["http"],
      { WEIR_SERVER_PROCESSES: "2", WEIR_METRICS_PORT: "0" },
      ["WEIR_METRICS_PORT"],
    ],
    [
      "more processes than there are metrics ports",
      ["http"],
      { WEIR_SERVER_PROCESSES: "3", WEIR_METRICS_PORT: "65534" },
      ["WEIR_METRICS_PORT"],
    ],
    ["a file that is not there", ["http"], { WEIR_TLS_KEY_FILE: "/nowhere/key" }, ["WEIR_TLS_KEY_FILE"]],
    ["a stop shorter than its drain", ["process"], { WEIR_STOP_TIMEOUT: "10s" }, ["WEIR_STOP_TIMEOUT"]],
    [
      "less for all bodies than one takes with what is inflated of it",
      ["http"],
      { WEIR_MAX_BODY_MEMORY: "31MiB" },
      ["WEIR_MAX_BODY_MEMORY"],
    ],
    ["a deadline above the longest", ["http"], { WEIR_REQUEST_TIMEOUT: "10m" }, ["WEIR_REQUEST_TIMEOUT"]],
    [
      "more reads than connections",
      ["search"],
      { WEIR_SEARCH_CONCURRENCY: "9" },
      ["WEIR_SEARCH_CONCURRENCY"],
    ],
    [
      "a CA without TLS",
      ["kafka"],
      { ...LEAST, WEIR_KAFKA_CA_FILE: import.meta.filename },
      ["WEIR_KAFKA_CA_FILE"],
    ],
    [
      "a login without a mechanism",
      ["kafka"],
      { ...LEAST, WEIR_KAFKA_USERNAME: "weir", WEIR_KAFKA_PASSWORD: "p" },
      ["WEIR_KAFKA_USERNAME", "WEIR_KAFKA_PASSWORD"],
    ],
    [
      "a mechanism without a login",
      ["kafka"],
      { ...LEAST, WEIR_KAFKA_SASL_MECHANISM: "plain" },
      ["WEIR_KAFKA_USERNAME", "WEIR_KAFKA_PASSWORD"],
    ],
    ["no brokers", ["kafka"], { WEIR_KAFKA_BROKERS: " , " }, ["WEIR_KAFKA_BROKERS"]],
  ])("refuses %s", (_, groups, env, names) => {
    expect(namesOf(groups, env)).toEqual(names);
  });
});

describe("the key that verifies tokens", () => {
  it.each<[string, Environment, string | undefined]>([
    ["HS256 with 32 bytes", { WEIR_JWT_ALGORITHM: "HS256", WEIR_JWT_SECRET: "x".repeat(32) }, undefined],
    [
      "HS256 with 31 bytes",
      { WEIR_JWT_ALGORITHM: "HS256", WEIR_JWT_SECRET: "x".repeat(31) },
      "WEIR_JWT_SECRET",
    ],
    [
      "HS256 with 32 bytes in 16 letters",
      { WEIR_JWT_ALGORITHM: "HS256", WEIR_JWT_SECRET: "é".repeat(16) },
      undefined,
    ],
    [
      "HS384 with 47 bytes",
      { WEIR_JWT_ALGORITHM: "HS384", WEIR_JWT_SECRET: "x".repeat(47) },
      "WEIR_JWT_SECRET",
    ],
    [
      "HS512 with 63 bytes",
      { WEIR_JWT_ALGORITHM: "HS512", WEIR_JWT_SECRET: "x".repeat(63) },
      "WEIR_JWT_SECRET",
    ],
    ["HS512 with 64 bytes", { WEIR_JWT_ALGORITHM: "HS512", WEIR_JWT_SECRET: "x".repeat(64) }, undefined],
    ["no algorithm", { WEIR_JWT_SECRET: SECRET }, "WEIR_JWT_ALGORITHM"],
    ["none", { WEIR_JWT_ALGORITHM: "none", WEIR_JWT_SECRET: SECRET }, "WEIR_JWT_ALGORITHM"],
    ["two algorithms", { WEIR_JWT_ALGORITHM: "HS256,RS256", WEIR_JWT_SECRET: SECRET }, "WEIR_JWT_ALGORITHM"],
    ["no key", { WEIR_JWT_ALGORITHM: "EdDSA" }, "WEIR_JWT_ALGORITHM"],
    ["a secret for EdDSA", { WEIR_JWT_ALGORITHM: "EdDSA", WEIR_JWT_SECRET: SECRET }, "WEIR_JWT_SECRET"],
    [
      "a public key for HS256",
      { WEIR_JWT_ALGORITHM: "HS256", WEIR_JWT_PUBLIC_KEY: PEM },
      "WEIR_JWT_PUBLIC_KEY",
    ],
    [
      "a JWKS for HS256",
      { WEIR_JWT_ALGORITHM: "HS256", WEIR_JWKS_URL: "https://issuer/jwks" },
      "WEIR_JWKS_URL",
    ],
    [
      "two sources",
      { WEIR_JWT_ALGORITHM: "EdDSA", WEIR_JWT_PUBLIC_KEY: PEM, WEIR_JWKS_URL: "https://issuer/jwks" },
      "WEIR_JWKS_URL",
    ],
    ["what is no PEM", { WEIR_JWT_ALGORITHM: "EdDSA", WEIR_JWT_PUBLIC_KEY: "MCowBQ" }, "WEIR_JWT_PUBLIC_KEY"],
    ["what is no URL", { WEIR_JWT_ALGORITHM: "EdDSA", WEIR_JWKS_URL: "issuer/jwks" }, "WEIR_JWKS_URL"],
  ])("%s", (_, env, name) => {
    expect(namesOf(["jwt"], env)).toEqual(name === undefined ? [] : [name]);
  });

  it("may be PEM with its line breaks written out, or in a file", () => {
    const path = join(folder, "key.pub");
    writeFileSync(path, `${PEM}\n`);
    const key = { kind: "publicKey", pem: PEM };
    const algorithm = { WEIR_JWT_ALGORITHM: "EdDSA" };
    expect(
      loadConfig(["jwt"], { ...algorithm, WEIR_JWT_PUBLIC_KEY: PEM.replaceAll("\n", "\\n") }).jwt.key,
    ).toEqual(key);
    expect(loadConfig(["jwt"], { ...algorithm, WEIR_JWT_PUBLIC_KEY_FILE: path }).jwt.key).toEqual(key);
  });
});

describe("secrets", () => {
  it("are in no message, whatever is wrong with them", () => {
    const secret = "hunter2-hunter2";
    const secrets = ALL.flatMap((group) => Object.values(SETTINGS[group].settings)).filter(
      (setting) => "secret" in setting && setting.secret,
    );
    expect(new Set<string>(secrets.map((setting) => setting.name))).toEqual(
      new Set(["WEIR_DATABASE_URL", "WEIR_JWT_SECRET", "WEIR_KAFKA_PASSWORD", "WEIR_READ_DATABASE_URL"]),
    );
    const env = { ...LEAST, ...Object.fromEntries(secrets.map((setting) => [setting.name, secret])) };
    const faults = faultsOf(ALL, env);
    expect(faults.length).toBeGreaterThanOrEqual(3);
    expect(new ConfigError(faults).message).not.toContain(secret);
  });
});

describe("unknownVariables", () => {
  it("names what no setting reads, with the one that may have been meant", () => {
    expect(
      unknownVariables({ WEIR_PROT: "1", WEIR_PORT: "1", PATH: "/bin", WEIR_QQQQQQQQQQQQQ: "" }),
    ).toEqual([
      "WEIR_PROT is not a setting and is ignored; did you mean WEIR_PORT?",
      "WEIR_QQQQQQQQQQQQQ is not a setting and is ignored",
    ]);
  });

  it.each([
    ["WEIR_FOO", undefined],
    ["WEIR_", undefined],
    ["WEIR_HOTS", "WEIR_HOST"],
    ["WEIR_PORTS", "WEIR_PORT"],
    ["WEIR_MAX_STREAM", "WEIR_MAX_STREAMS"],
    ["WEIR_READ_LIMIT_MB", "WEIR_READ_LIMIT"],
  ])("suggests only what is near: %s", (name, meant) => {
    const hint = meant === undefined ? "" : `; did you mean ${meant}?`;
    expect(unknownVariables({ [name]: "1" })).toEqual([`${name} is not a setting and is ignored${hint}`]);
  });

  it("leaves the variables of the launcher, the tests and the command alone", () => {
    const foreign = { WEIR_TEST_KAFKA_BROKERS: "x", WEIR_DEV_HOME: "y", WEIR_URL: "z", WEIR_TOKEN: "t" };
    expect(unknownVariables(foreign)).toEqual([]);
    expect(unknownVariables({ WEIR_TOKENS: "t" })).toHaveLength(1);
  });
});
