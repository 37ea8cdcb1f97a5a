import { rmSync, writeFileSync } from "node:fs";

import { quote } from "./panel.ts";

/** What another process needs to be one of this Weir's, beside the operator's own settings. */
const LOCAL = [
  "WEIR_DATABASE_URL",
  "WEIR_KAFKA_BROKERS",
  "WEIR_KAFKA_TLS",
  "WEIR_KAFKA_SASL_MECHANISM",
  "WEIR_JWT_ALGORITHM",
  "WEIR_JWT_SECRET",
  "WEIR_JWT_ISSUER",
];

/** Writes these settings for a shell to read (`set -a; . FILE`), for their owner's eyes alone; their ports are free to choose. */
export function writeEnvFile(file: string, env: NodeJS.ProcessEnv): void {
  const lines = LOCAL.flatMap((name) => (env[name] === undefined ? [] : [`${name}=${quote(env[name])}\n`]));
  // The mode is that of a new file alone.
  rmSync(file, { force: true });
  writeFileSync(file, lines.join(""), { mode: 0o600 });
}
