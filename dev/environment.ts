import { type Config, loadConfig } from "#runtime/config.ts";
import { SETTINGS } from "#runtime/settings.ts";
import { type OwnService, postgresAddress } from "./reach.ts";
import { DEV_ISSUER } from "./token.ts";

/** Would name another key, or another issuer, than the launcher's own. */
const OTHER_KEYS = ["WEIR_JWT_PUBLIC_KEY", "WEIR_JWT_PUBLIC_KEY_FILE", "WEIR_JWKS_URL", "WEIR_JWT_AUDIENCE"];

/** What the launcher makes of the environment that it was started with. */
export interface LaunchEnvironment {
  readonly config: Config;
  /** PostgreSQL and Kafka that are the operator's own. */
  readonly own: readonly OwnService[];
  readonly hasBrokers: boolean;
  /** For server and workers, without the addresses of what the launcher will start. */
  readonly variables: NodeJS.ProcessEnv;
}

/**
 * Reads the operator's settings, all of them, before anything is started. Tokens are always the launcher's own:
 * another key is left out.
 *
 * @throws ConfigError that names every variable at fault.
 */
export function readEnvironment(env: NodeJS.ProcessEnv, secret: string): LaunchEnvironment {
  const isSet = (name: string): boolean => (env[name] ?? "").trim() !== "";
  const hasDatabase = isSet("WEIR_DATABASE_URL");
  const hasBrokers = isSet("WEIR_KAFKA_BROKERS");
  const variables: NodeJS.ProcessEnv = {
    ...env,
    ...Object.fromEntries(OTHER_KEYS.map((name) => [name, ""])),
    WEIR_JWT_ALGORITHM: "HS256",
    WEIR_JWT_SECRET: secret,
    WEIR_JWT_ISSUER: DEV_ISSUER,
    ...(!hasBrokers && { WEIR_KAFKA_TLS: "false", WEIR_KAFKA_SASL_MECHANISM: "" }),
  };
  const config = loadConfig(Object.keys(SETTINGS) as (keyof Config)[], {
    ...variables,
    ...(!hasDatabase && { WEIR_DATABASE_URL: "postgres://to-be-started" }),
    ...(!hasBrokers && { WEIR_KAFKA_BROKERS: "to-be-started:9092" }),
  });
  const own: OwnService[] = [];
  const address = hasDatabase ? postgresAddress(config.database.url) : undefined;
  if (hasDatabase)
    own.push({
      name: "PostgreSQL",
      setting: "WEIR_DATABASE_URL",
      addresses: address === undefined ? [] : [address],
    });
  if (hasBrokers) own.push({ name: "Kafka", setting: "WEIR_KAFKA_BROKERS", addresses: config.kafka.brokers });
  return { config, own, hasBrokers, variables };
}

/** The host part of a URL at which a listener on this address is reached from here. */
export function urlHost(address: string): string {
  if (address === "0.0.0.0") return "127.0.0.1";
  if (address === "::") return "[::1]";
  return address.includes(":") ? `[${address}]` : address;
}
