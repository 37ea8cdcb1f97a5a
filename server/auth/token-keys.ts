import { createPublicKey, type KeyObject } from "node:crypto";
import { createLocalJWKSet, errors, type JSONWebKeySet, type JWTVerifyGetKey } from "jose";
import { type JwtKeySource } from "#runtime/config.ts";
import { type Logger } from "#runtime/log.ts";
import { OperatorError, type Probe } from "#runtime/service.ts";

/** The keys cannot be had at the moment: the fault is the issuer's or the network's, not the token's. */
export class KeysUnavailableError extends Error {
  override readonly name = "KeysUnavailableError";
}

/** Keys are asked for anew when they are this old; meanwhile the old ones serve. */
const REFRESH_MS = 10 * 60_000;
/** Keys that could not be refreshed for this long are no longer trusted: one of them may have been withdrawn. */
const MAX_AGE_MS = 24 * 60 * 60_000;
/** The issuer is asked at most this often, whatever the tokens name. */
const COOLDOWN_MS = 30_000;
/** While there are no keys at all. */
const FIRST_COOLDOWN_MS = 1_000;
const FETCH_TIMEOUT_MS = 5_000;
const MAX_KEY_SET_BYTES = 256 * 1024;

const MIN_SECRET_BYTES = 32;
const MIN_RSA_BITS = 2048;
const EC_CURVES: Readonly<Record<string, string>> = {
  ES256: "prime256v1",
  ES384: "secp384r1",
  ES512: "secp521r1",
};

/** The keys that tokens are verified with. */
export interface TokenKeys {
  /** Gives the key for a token, or throws a KeysUnavailableError. */
  readonly find: JWTVerifyGetKey;
  /** Why there is no key to verify any token with, for readiness; absent where the keys are configured themselves. */
  readonly probe?: Probe;
}

/** What {@link createTokenKeys} needs. */
export interface TokenKeysOptions {
  readonly source: JwtKeySource;
  /** The one algorithm that a token may be signed with. */
  readonly algorithm: string;
  /** Hears when an issuer's keys cannot be had, and when they can be again. */
  readonly log: Logger;
  /** Milliseconds since 1970; a test's clock. */
  readonly now?: () => number;
}

/**
 * The keys of a source.
 *
 * @throws Error, with a line for the operator, where the source cannot be used with the algorithm: the boot stops.
 */
export function createTokenKeys({ source, algorithm, log, now = Date.now }: TokenKeysOptions): TokenKeys {
  switch (source.kind) {
    case "secret": {
      const key = secretKey(source.secret, algorithm);
      return { find: () => key };
    }
    case "publicKey": {
      const key = publicKey(source.pem, algorithm);
      return { find: () => key };
    }
    case "jwks":
      if (algorithm.startsWith("HS"))
        throw new OperatorError(`A key set cannot verify ${algorithm}: its keys are public`);
      return createKeySet(source.url, log, now);
  }
}

function secretKey(secret: string, algorithm: string): Uint8Array {
  if (!algorithm.startsWith("HS"))
    throw new OperatorError(`A shared secret cannot verify ${algorithm}: give a public key`);
  const key = new TextEncoder().encode(secret);
  if (key.byteLength < MIN_SECRET_BYTES) {
    throw new OperatorError(
      `The token secret must be at least ${MIN_SECRET_BYTES} bytes and has ${key.byteLength}`,
    );
  }
  return key;
}

function publicKey(pem: string, algorithm: string): KeyObject {
  // createPublicKey would derive a public key from a private one, which has no business on this machine.
  if (pem.includes("PRIVATE KEY"))
    throw new OperatorError("The token key is a private key: give the public key alone");
  let key: KeyObject;
  try {
    key = createPublicKey(pem);
  } catch (cause) {
    throw new OperatorError("The token key is not a public key or certificate in PEM", { cause });
  }
  const fits = wantedKey(algorithm);
  if (!fits.is(key))
    throw new OperatorError(`The token key does not go with ${algorithm}, which needs ${fits.wanted}`);
  return key;
}

function wantedKey(algorithm: string): { wanted: string; is: (key: KeyObject) => boolean } {
  const curve = EC_CURVES[algorithm];
  if (curve !== undefined) {
    return {
      wanted: `an EC key on the curve ${curve}`,
      is: (key) => key.asymmetricKeyType === "ec" && key.asymmetricKeyDetails?.namedCurve === curve,
    };
  }
  if (algorithm.startsWith("RS")) {
    return {
      wanted: `an RSA key of at least ${MIN_RSA_BITS} bits`,
      is: (key) =>
        key.asymmetricKeyType === "rsa" && (key.asymmetricKeyDetails?.modulusLength ?? 0) >= MIN_RSA_BITS,
    };
  }
  if (algorithm === "EdDSA")
    return { wanted: "an Ed25519 key", is: (key) => key.asymmetricKeyType === "ed25519" };
  return { wanted: "a shared secret", is: () => false };
}

/**
 * The issuer's key set: fetched when first needed, kept while the issuer is away (up to a day), asked again every ten
 * minutes and for a key that is not in it, at most every 30 s. While there are no keys at all the probe asks for them too, so
 * that an issuer that cannot be reached shows before the first call.
 */
function createKeySet(url: string, log: Logger, now: () => number): Required<TokenKeys> {
  let keys: { readonly find: JWTVerifyGetKey; readonly loadedAt: number } | undefined;
  let askedAt = Number.NEGATIVE_INFINITY;
  let fetching: Promise<void> | undefined;
  /** What the last fetch failed with; undefined where it did not. */
  let lastFault: unknown;

  const refresh = (): Promise<void> => {
    askedAt = now();
    fetching ??= fetchKeySet(url)
      .then((set) => {
        keys = { find: createLocalJWKSet(set), loadedAt: now() };
        if (lastFault !== undefined) log.info("The issuer's keys can be had again", { url });
        lastFault = undefined;
      })
      .catch((error: unknown) => {
        if (lastFault === undefined)
          log.warn("The issuer's keys cannot be had", {
            url,
            reason: textOf(error),
            effect:
              keys === undefined ? "no token can be verified" : "the keys that are known serve for a day",
          });
        lastFault = error;
      })
      .finally(() => {
        fetching = undefined;
      });
    return fetching;
  };

  const unavailable = (): Error =>
    new KeysUnavailableError(`The keys at ${url} cannot be had`, { cause: lastFault });

  const age = (): number => now() - (keys?.loadedAt ?? Number.NEGATIVE_INFINITY);
  const mayAsk = (): boolean => now() - askedAt >= (keys === undefined ? FIRST_COOLDOWN_MS : COOLDOWN_MS);

  const find: JWTVerifyGetKey = async (header, token) => {
    if (age() > MAX_AGE_MS) {
      if (mayAsk() || fetching !== undefined) await refresh();
    } else if (age() > REFRESH_MS && mayAsk()) void refresh();
    if (keys === undefined || age() > MAX_AGE_MS) {
      throw unavailable();
    }
    try {
      return await keys.find(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error;
      const isAsked = mayAsk() || fetching !== undefined;
      if (isAsked) await refresh();
      // The token may be by a new key that cannot be had: nothing can be said against it.
      if (lastFault !== undefined) throw unavailable();
      if (!isAsked) throw error;
      return keys.find(header, token);
    }
  };

  return {
    find,
    async probe() {
      if (age() > MAX_AGE_MS && (mayAsk() || fetching !== undefined)) await refresh();
      if (age() <= MAX_AGE_MS) return undefined;
      return `no token can be verified, for the keys at ${url} cannot be had: ${textOf(lastFault)}`;
    },
  };
}

/** With what lies beneath: fetch says "fetch failed" alone. */
function textOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message}: ${textOf(error.cause)}` : error.message;
}

async function fetchKeySet(url: string): Promise<JSONWebKeySet> {
  const response = await fetch(url, {
    redirect: "error",
    signal: AbortSignal.timeout(FETCH_TIMEOUT_MS),
    headers: { accept: "application/jwk-set+json, application/json" },
  });
  if (response.status !== 200) throw new Error(`answered ${String(response.status)} instead of 200`);
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength;
    if (size > MAX_KEY_SET_BYTES) throw new Error(`is larger than ${MAX_KEY_SET_BYTES} bytes`);
    chunks.push(chunk);
  }
  return JSON.parse(Buffer.concat(chunks).toString("utf8")) as JSONWebKeySet;
}
