import { hash } from "node:crypto";
import { Code, type ContextKey, createContextKey } from "@connectrpc/connect";
import { errors, jwtVerify } from "jose";
import { type Failure } from "../errors.ts";
import { includesScope, type Scope } from "./scopes.ts";
import { KeysUnavailableError, type TokenKeys } from "./token-keys.ts";

/** Who calls, by a verified token. */
export interface Caller {
  /** The token's subject. */
  readonly principal: string;
  /** The token's scopes (RFC 8693: its `scope` claim, separated by spaces). */
  readonly scopes: ReadonlySet<string>;
}

/** The subject of the token of an RPC call, in its context values; "" where the method is open. */
export const principalKey: ContextKey<string> = createContextKey("");

/** Either who calls, or why it is refused. */
export type Authorization =
  | { readonly ok: true; readonly caller: Caller }
  | { readonly ok: false; readonly failure: Failure };

/** Verifies the Authorization header of a request and demands a scope of it. Rejects on a fault of ours alone; never logs a token. */
export type Authorize = (header: string | null | undefined, scope: Scope) => Promise<Authorization>;

/** How tokens are verified. */
export interface AuthOptions {
  /** The one algorithm that a token may be signed with. */
  readonly algorithm: string;
  readonly keys: TokenKeys;
  /** What `iss` and `aud` must be; undefined: not checked. */
  readonly issuer: string | undefined;
  readonly audience: string | undefined;
  /** How far the issuer's clock may differ, in milliseconds. */
  readonly leewayMs: number;
  /** Milliseconds since 1970; a test's clock. */
  readonly now?: () => number;
}

const MAX_TOKEN_BYTES = 8 * 1024;
/** The principal travels in a record header and stands in a column. */
const MAX_PRINCIPAL_BYTES = 256;

/**
 * How many verified tokens are remembered, and for how long at most (a withdrawn key then counts no longer). Verifying
 * costs 80 µs (HS256) to 180 µs (EdDSA) of CPU, remembering 2 to 3.
 */
const MAX_REMEMBERED = 10_000;
const REMEMBER_MS = 60_000;

/** Verifies tokens, and remembers those that it has verified. */
export function createAuthorize(options: AuthOptions): Authorize {
  const now = options.now ?? Date.now;
  const verify = createVerify(options, now);
  const remembered = new Map<string, { readonly caller: Caller; readonly until: number }>();

  const authenticate = async (token: string): Promise<Caller | Failure> => {
    const digest = hash("sha256", token, "base64");
    const known = remembered.get(digest);
    if (known !== undefined && known.until > now()) return known.caller;
    const verified = await verify(token);
    if ("reason" in verified) return verified;
    const until = Math.min(now() + REMEMBER_MS, verified.expiresAt);
    remembered.delete(digest);
    remembered.set(digest, { caller: verified.caller, until });
    if (remembered.size > MAX_REMEMBERED) {
      for (const oldest of remembered.keys()) {
        remembered.delete(oldest);
        break;
      }
    }
    return verified.caller;
  };

  return async (header, scope) => {
    const token = bearerToken(header);
    const caller = typeof token === "string" ? await authenticate(token) : token;
    if ("reason" in caller) return { ok: false, failure: caller };
    return includesScope(caller.scopes, scope)
      ? { ok: true, caller }
      : { ok: false, failure: scopeMissing(scope) };
  };
}

function bearerToken(header: string | null | undefined): string | Failure {
  if (header === null || header === undefined || header === "") {
    return refusal(
      "TOKEN_MISSING",
      "The request has no token. Send the header `Authorization: Bearer <token>`.",
    );
  }
  if (Buffer.byteLength(header) > MAX_TOKEN_BYTES) {
    return refusal("TOKEN_INVALID", `The token is longer than ${MAX_TOKEN_BYTES} bytes.`);
  }
  const token = /^Bearer +([\w-]+\.[\w-]+\.[\w-]+) *$/i.exec(header)?.[1];
  return (
    token ??
    refusal("TOKEN_INVALID", "The Authorization header must be `Bearer` and a signed JSON Web Token.")
  );
}

type Verified = { readonly caller: Caller; readonly expiresAt: number };

function createVerify(
  options: AuthOptions,
  now: () => number,
): (token: string) => Promise<Verified | Failure> {
  const { algorithm, keys, issuer, audience, leewayMs } = options;
  const checks = {
    algorithms: [algorithm],
    requiredClaims: ["exp", "sub"],
    clockTolerance: leewayMs / 1000,
    ...(issuer !== undefined && { issuer }),
    ...(audience !== undefined && { audience }),
  };
  return async (token) => {
    try {
      const { payload } = await jwtVerify(token, keys.find, { ...checks, currentDate: new Date(now()) });
      const { sub, exp, scope } = payload as { sub?: unknown; exp: number; scope?: unknown };
      // 1e400 is a JSON number, read as one without end.
      if (!Number.isFinite(exp))
        return refusal("TOKEN_INVALID", "The token's exp must be a finite number.", { claim: "exp" });
      if (
        typeof sub !== "string" ||
        !/^[^\p{Cc}\p{Cs}]+$/u.test(sub) ||
        Buffer.byteLength(sub) > MAX_PRINCIPAL_BYTES
      ) {
        return refusal(
          "TOKEN_INVALID",
          `The token's sub must be a text of 1 to ${MAX_PRINCIPAL_BYTES} bytes without control characters and lone surrogates.`,
        );
      }
      const scopes = new Set(typeof scope === "string" ? scope.split(" ").filter((each) => each !== "") : []);
      return { caller: { principal: sub, scopes }, expiresAt: exp * 1000 + leewayMs };
    } catch (error) {
      return failureOfVerification(error);
    }
  };
}

function failureOfVerification(error: unknown): Failure {
  if (error instanceof KeysUnavailableError) {
    return {
      code: Code.Unavailable,
      reason: "KEYS_UNAVAILABLE",
      message: "The issuer's keys cannot be had at the moment, so the token cannot be verified. Try again.",
      retryAfterMs: 5_000,
    };
  }
  if (error instanceof errors.JWTExpired)
    return refusal("TOKEN_EXPIRED", "The token has expired. Get a new one.");
  if (error instanceof errors.JWTClaimValidationFailed) {
    const problem =
      error.reason === "missing"
        ? "is missing"
        : error.claim === "nbf"
          ? "is in the future"
          : "is not what it must be";
    return refusal("TOKEN_INVALID", `The token's claim ${error.claim} ${problem}.`, { claim: error.claim });
  }
  if (error instanceof errors.JOSEAlgNotAllowed) {
    return refusal("TOKEN_INVALID", "The token is not signed with the algorithm that is accepted here.");
  }
  if (error instanceof errors.JWSSignatureVerificationFailed || error instanceof errors.JWKSNoMatchingKey) {
    return refusal("TOKEN_INVALID", "The token's signature is not by a key of the accepted issuer.");
  }
  if (error instanceof errors.JWKSMultipleMatchingKeys) {
    return refusal("TOKEN_INVALID", "The issuer has several keys, so the token must name its own (kid).");
  }
  if (error instanceof errors.JOSEError) {
    return refusal("TOKEN_INVALID", "The token is not a JSON Web Token that can be verified.");
  }
  throw error;
}

function refusal(
  reason: "TOKEN_MISSING" | "TOKEN_INVALID" | "TOKEN_EXPIRED",
  message: string,
  metadata?: Record<string, string>,
): Failure {
  return { code: Code.Unauthenticated, reason, message, ...(metadata && { metadata }) };
}

function scopeMissing(scope: Scope): Failure {
  return {
    code: Code.PermissionDenied,
    reason: "SCOPE_MISSING",
    message: `The token lacks the scope ${scope}, which this call needs.`,
    metadata: { scope },
  };
}
