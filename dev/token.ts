import { parseArgs } from "node:util";
import { join } from "node:path";
import { SignJWT } from "jose";

import { duration } from "#runtime/settings/forms.ts";
import { openDataFolder, readOrCreateSecret } from "./data-folder.ts";

/** Who signs the tokens of a local Weir. */
export const DEV_ISSUER = "weir-dev";

/** Every scope that a token can carry. */
export const ALL_SCOPES = ["events.write", "events.read", "admin.read", "admin.write"] as const;

const USAGE = `Usage: npm run token -- [--scope SCOPES] [--sub NAME] [--ttl DURATION]

  --scope  what the token allows, separated by commas (${ALL_SCOPES.join(",")}); all of them by default
  --sub    whom it stands for; "dev" by default
  --ttl    how long it is good for, such as 30m, 12h or 7d; 24h by default, at most 365d
`;

const ttlForm = duration("1s", "365d");

/** The secret that a local Weir signs and verifies its tokens with (HS256); made when missing. */
export function devSecret(dataFolder: string): string {
  return readOrCreateSecret(join(dataFolder, "jwt-secret"));
}

/** The secret of the Weir whose .weir/env this shell has read, wherever that is; else of the one of this folder. */
function secretInForce(): string {
  const { WEIR_JWT_ISSUER: issuer, WEIR_JWT_SECRET: secret } = process.env;
  return issuer === DEV_ISSUER && secret ? secret : devSecret(openDataFolder());
}

/** A token of the development issuer, as RFC 8693 writes scopes. `ttlMs` is rounded down to whole seconds. */
export function signDevToken(
  secret: string,
  claims: { readonly scopes: readonly string[]; readonly subject: string; readonly ttlMs: number },
): Promise<string> {
  const now = Math.floor(Date.now() / 1000);
  return new SignJWT({ scope: claims.scopes.join(" ") })
    .setProtectedHeader({ alg: "HS256", typ: "JWT" })
    .setIssuer(DEV_ISSUER)
    .setSubject(claims.subject)
    .setIssuedAt(now)
    .setExpirationTime(now + Math.floor(claims.ttlMs / 1000))
    .sign(new TextEncoder().encode(secret));
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      scope: { type: "string", default: ALL_SCOPES.join(",") },
      sub: { type: "string", default: "dev" },
      ttl: { type: "string", default: "24h" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return void process.stdout.write(USAGE);
  const scopes = values.scope.split(/[\s,]+/).filter((scope) => scope !== "");
  const unknown = scopes.filter((scope) => !(ALL_SCOPES as readonly string[]).includes(scope));
  if (unknown.length > 0 || scopes.length === 0)
    throw new Error(
      `--scope: ${unknown.join(", ") || "nothing"} is not a scope; there are ${ALL_SCOPES.join(", ")}.`,
    );
  const ttl = ttlForm.safeParse(values.ttl);
  if (!ttl.success) throw new Error(`--ttl: ${ttl.error.issues[0]?.message}.`);
  const claims = { scopes, subject: values.sub, ttlMs: ttl.data };
  process.stdout.write(`${await signDevToken(secretInForce(), claims)}\n`);
}

if (import.meta.main) {
  try {
    await main();
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n\n${USAGE}`);
    process.exitCode = 1;
  }
}
