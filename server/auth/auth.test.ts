import { createHmac, generateKeyPairSync, type KeyObject } from "node:crypto";
import { Code } from "@connectrpc/connect";
import { SignJWT, UnsecuredJWT } from "jose";
import { describe, expect, it } from "vitest";
import { type JwtKeySource } from "#runtime/config.ts";
import { type Logger } from "#runtime/log.ts";
import { type Authorization, type Authorize, type AuthOptions, createAuthorize } from "./auth.ts";
import { createTokenKeys } from "./token-keys.ts";

const NOW = Date.UTC(2026, 10, 30);
const SECRET = "a secret of the tests, sixty-four bytes long, and of no other use";
const RSA = generateKeyPairSync("rsa", { modulusLength: 2048 });
const EC = { ES256: "prime256v1", ES384: "secp384r1", ES512: "secp521r1" } as const;
const ED = generateKeyPairSync("ed25519");

function pemOf(key: KeyObject): string {
  return key.export({ type: "spki", format: "pem" }) as string;
}

type Options = Partial<AuthOptions & { readonly key: JwtKeySource }>;

function authorizeWith({
  algorithm = "HS256",
  key: source = { kind: "secret", secret: SECRET },
  ...options
}: Options = {}): Authorize {
  return createAuthorize({
    algorithm,
    keys: createTokenKeys({ source, algorithm, log: {} as Logger }),
    issuer: undefined,
    audience: undefined,
    leewayMs: 30_000,
    now: () => NOW,
    ...options,
  });
}

type Claims = Record<string, unknown>;

/** Times in seconds from now. */
const GOOD: Claims = { sub: "alice", scope: "events.write events.read", exp: NOW / 1000 + 60 };

function sign(
  claims: Claims,
  alg = "HS256",
  key: KeyObject | Uint8Array = Buffer.from(SECRET),
  header = {},
): Promise<string> {
  return new SignJWT(claims).setProtectedHeader({ alg, ...header }).sign(key);
}

/** A token whose parts are given as they are, signed with HMAC-SHA-256. */
function forge(header: Claims, claims: Claims | string, secret: string): string {
  const parts = [header, claims].map((part) =>
    Buffer.from(typeof part === "string" ? part : JSON.stringify(part)).toString("base64url"),
  );
  const signature = createHmac("sha256", secret).update(parts.join(".")).digest("base64url");
  return [...parts, signature].join(".");
}

function without(claims: Claims, name: string): Claims {
  return Object.fromEntries(Object.entries(claims).filter(([each]) => each !== name));
}

function refusalOf(authorization: Authorization): { code: string; reason: string; message: string } {
  if (authorization.ok) throw new Error(`Accepted, as ${authorization.caller.principal}`);
  const { code, reason, message } = authorization.failure;
  return { code: Code[code], reason, message };
}

describe("a good token", () => {
  it.each(["HS256", "HS384", "HS512"])("is accepted in %s", async (algorithm) => {
    const token = await sign(GOOD, algorithm);
    const authorization = await authorizeWith({ algorithm })(`Bearer ${token}`, "events.write");
    expect(authorization).toEqual({
      ok: true,
      caller: { principal: "alice", scopes: new Set(["events.write", "events.read"]) },
    });
  });

  it.each([
    ["RS256", RSA],
    ["RS384", RSA],
    ["RS512", RSA],
    ["EdDSA", ED],
    ...Object.entries(EC).map(
      ([alg, namedCurve]) => [alg, generateKeyPairSync("ec", { namedCurve })] as const,
    ),
  ] as const)("is accepted in %s", async (algorithm, { publicKey, privateKey }) => {
    const key = { kind: "publicKey", pem: pemOf(publicKey) } as const;
    const token = await sign(GOOD, algorithm, privateKey);
    const authorization = await authorizeWith({ algorithm, key })(`bearer  ${token}`, "events.read");
    expect(authorization).toMatchObject({ ok: true, caller: { principal: "alice" } });
  });

  it.each([
    ["has an exp within the leeway", { ...GOOD, exp: NOW / 1000 - 29 }],
    ["has an nbf within the leeway", { ...GOOD, nbf: NOW / 1000 + 29 }],
    ["names the audience among others", { ...GOOD, aud: ["other", "weir"] }],
    ["names an issuer that is not asked for", { ...GOOD, iss: "someone" }],
  ])("is accepted where it %s", async (_, claims) => {
    const audience = "aud" in claims ? "weir" : undefined;
    const authorize = authorizeWith({ audience });
    expect(await authorize(`Bearer ${await sign(claims)}`, "events.write")).toMatchObject({ ok: true });
  });
});

describe("a bad token", () => {
  const header = { alg: "HS256" };
  const rsaPem = pemOf(RSA.publicKey);
  const rsaKey = { algorithm: "RS256", key: { kind: "publicKey", pem: rsaPem } } as const;
  const attacker = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const jwk = attacker.publicKey.export({ format: "jwk" });

  it.each<[name: string, token: () => string | Promise<string>, reason: string, options?: Options]>([
    ["is no token", () => "secret", "TOKEN_INVALID"],
    ["has two parts", () => "e30.e30", "TOKEN_INVALID"],
    ["has five parts, as JWE has", () => "e30.e30.e30.e30.e30", "TOKEN_INVALID"],
    ["is no JSON", () => "bm8.bm8.bm8", "TOKEN_INVALID"],
    ["has alg none and no signature", () => new UnsecuredJWT(GOOD).encode(), "TOKEN_INVALID"],
    ["has alg none and a signature", () => forge({ alg: "none" }, GOOD, SECRET), "TOKEN_INVALID"],
    ["has alg nOnE", () => forge({ alg: "nOnE" }, GOOD, SECRET), "TOKEN_INVALID"],
    ["has no alg", () => forge({}, GOOD, SECRET), "TOKEN_INVALID"],
    ["is signed with the public key as a secret", () => forge(header, GOOD, rsaPem), "TOKEN_INVALID", rsaKey],
    [
      "is signed with the trimmed public key",
      () => forge(header, GOOD, rsaPem.trim()),
      "TOKEN_INVALID",
      rsaKey,
    ],
    ["says RS256 over an HMAC", () => forge({ alg: "RS256" }, GOOD, rsaPem), "TOKEN_INVALID", rsaKey],
    [
      "brings its own key (jwk)",
      () => sign(GOOD, "RS256", attacker.privateKey, { jwk }),
      "TOKEN_INVALID",
      rsaKey,
    ],
    ["is signed by another key", () => sign(GOOD, "RS256", attacker.privateKey), "TOKEN_INVALID", rsaKey],
    ["has another algorithm of the same family", () => sign(GOOD, "HS512"), "TOKEN_INVALID"],
    ["has another algorithm, PS256", () => sign(GOOD, "PS256", RSA.privateKey), "TOKEN_INVALID", rsaKey],
    ["is signed with another secret", () => sign(GOOD, "HS256", Buffer.from(`${SECRET}.`)), "TOKEN_INVALID"],
    ["has an unknown crit", () => forge({ ...header, crit: ["x"], x: 1 }, GOOD, SECRET), "TOKEN_INVALID"],
    [
      "has a crit that names what is not there",
      () => forge({ ...header, crit: ["exp"] }, GOOD, SECRET),
      "TOKEN_INVALID",
    ],
    [
      "is unencoded (b64)",
      () => forge({ ...header, crit: ["b64"], b64: false }, GOOD, SECRET),
      "TOKEN_INVALID",
    ],
    ["is longer than 8 KiB", () => sign({ ...GOOD, more: "x".repeat(8_192) }), "TOKEN_INVALID"],
    ["has no exp", () => sign(without(GOOD, "exp")), "TOKEN_INVALID"],
    ["has a text as exp", () => forge(header, { ...GOOD, exp: "2099-01-01" }, SECRET), "TOKEN_INVALID"],
    ["never expires", () => forge(header, '{"sub":"alice","exp":1e400}', SECRET), "TOKEN_INVALID"],
    ["has expired beyond the leeway", () => sign({ ...GOOD, exp: NOW / 1000 - 31 }), "TOKEN_EXPIRED"],
    ["is not yet good", () => sign({ ...GOOD, nbf: NOW / 1000 + 31 }), "TOKEN_INVALID"],
    ["has no sub", () => sign(without(GOOD, "sub")), "TOKEN_INVALID"],
    ["has an empty sub", () => sign({ ...GOOD, sub: "" }), "TOKEN_INVALID"],
    ["has a number as sub", () => forge(header, { ...GOOD, sub: 7 }, SECRET), "TOKEN_INVALID"],
    ["has a line break in its sub", () => sign({ ...GOOD, sub: "alice\nbob" }), "TOKEN_INVALID"],
    ["has a lone surrogate in its sub", () => sign({ ...GOOD, sub: "alice\ud800" }), "TOKEN_INVALID"],
    ["has a sub of 257 bytes", () => sign({ ...GOOD, sub: "é".repeat(128) + "x" }), "TOKEN_INVALID"],
    ["has another issuer", () => sign({ ...GOOD, iss: "other" }), "TOKEN_INVALID", { issuer: "weir" }],
    ["has no issuer", () => sign(GOOD), "TOKEN_INVALID", { issuer: "weir" }],
    ["has another audience", () => sign({ ...GOOD, aud: "other" }), "TOKEN_INVALID", { audience: "weir" }],
    ["has no audience", () => sign(GOOD), "TOKEN_INVALID", { audience: "weir" }],
  ])("that %s is refused", async (_, token, reason, options) => {
    const authorization = await authorizeWith(options)(`Bearer ${await token()}`, "events.write");
    expect(refusalOf(authorization)).toMatchObject({ code: "Unauthenticated", reason });
  });

  it("that was altered is refused", async () => {
    const [head, , signature] = (await sign(GOOD)).split(".");
    const claims = Buffer.from(JSON.stringify({ ...GOOD, sub: "root" })).toString("base64url");
    const authorization = await authorizeWith()(
      `Bearer ${[head, claims, signature].join(".")}`,
      "events.write",
    );
    expect(refusalOf(authorization)).toMatchObject({ reason: "TOKEN_INVALID" });
  });

  it.each([null, undefined, ""])("that is missing (%j) is asked for", async (header) => {
    const refusal = refusalOf(await authorizeWith()(header, "events.write"));
    expect(refusal).toMatchObject({ code: "Unauthenticated", reason: "TOKEN_MISSING" });
  });

  it.each(["Basic YWxpY2U6c2VjcmV0", "Bearer", "Bearer a b"])(
    "in the header %j is refused",
    async (header) => {
      expect(refusalOf(await authorizeWith()(header, "events.write"))).toMatchObject({
        reason: "TOKEN_INVALID",
      });
    },
  );

  it("is never repeated in the refusal", async () => {
    const token = await sign({ ...GOOD, sub: "" });
    const { message } = refusalOf(await authorizeWith()(`Bearer ${token}`, "events.write"));
    expect(message).not.toContain(token.split(".")[1]);
  });
});

describe("a scope", () => {
  it.each([
    ["events.write", "events.write", true],
    ["events.read events.write", "events.write", true],
    ["events.read", "events.write", false],
    ["events.write.more", "events.write", false],
    ["EVENTS.WRITE", "events.write", false],
    ["admin.write", "admin.read", true],
    ["admin.read", "admin.write", false],
    ["admin.write", "events.read", false],
    ["", "events.read", false],
    [undefined, "events.read", false],
    [["events.read"], "events.read", false],
  ] as const)("%j for %s: %j", async (held, needed, ok) => {
    const token = await sign({ ...GOOD, scope: held });
    const authorization = await authorizeWith()(`Bearer ${token}`, needed);
    const refused = {
      ok: false,
      failure: {
        code: Code.PermissionDenied,
        reason: "SCOPE_MISSING",
        message: `The token lacks the scope ${needed}, which this call needs.`,
        metadata: { scope: needed },
      },
    };
    expect(authorization).toMatchObject(ok ? { ok } : refused);
  });
});

describe("a remembered token", () => {
  it("is refused once it has expired", async () => {
    let now = NOW;
    const authorize = authorizeWith({ now: () => now });
    const header = `Bearer ${await sign({ ...GOOD, exp: NOW / 1000 + 10 })}`;
    expect(await authorize(header, "events.write")).toMatchObject({ ok: true });
    now += 39_000;
    expect(await authorize(header, "events.write")).toMatchObject({ ok: true });
    now += 1_001;
    expect(refusalOf(await authorize(header, "events.write"))).toMatchObject({ reason: "TOKEN_EXPIRED" });
  });

  it("has no more scopes than it had", async () => {
    const authorize = authorizeWith();
    const header = `Bearer ${await sign({ ...GOOD, scope: "events.read" })}`;
    expect(await authorize(header, "events.read")).toMatchObject({ ok: true });
    expect(refusalOf(await authorize(header, "events.write"))).toMatchObject({ reason: "SCOPE_MISSING" });
  });
});

describe("a key that cannot be used stops the boot", () => {
  const small = generateKeyPairSync("rsa", { modulusLength: 1024 });
  const secret = (text: string) => ({ kind: "secret", secret: text }) as const;
  const pem = (text: string) => ({ kind: "publicKey", pem: text }) as const;

  it.each<[name: string, algorithm: string, key: JwtKeySource, line: string]>([
    ["31 bytes", "HS256", secret("x".repeat(31)), "must be at least 32 bytes and has 31"],
    ["a secret for RS256", "RS256", secret(SECRET), "A shared secret cannot verify RS256"],
    ["a public key for HS256", "HS256", pem(pemOf(RSA.publicKey)), "does not go with HS256"],
    [
      "an RSA key of 1024 bits",
      "RS256",
      pem(pemOf(small.publicKey)),
      "needs an RSA key of at least 2048 bits",
    ],
    ["an RSA key for ES256", "ES256", pem(pemOf(RSA.publicKey)), "needs an EC key on the curve prime256v1"],
    [
      "an EC key on another curve",
      "ES384",
      pem(pemOf(generateKeyPairSync("ec", { namedCurve: EC.ES256 }).publicKey)),
      "secp384r1",
    ],
    ["an Ed448 key", "EdDSA", pem(pemOf(generateKeyPairSync("ed448").publicKey)), "needs an Ed25519 key"],
    [
      "a private key",
      "EdDSA",
      pem(ED.privateKey.export({ type: "pkcs8", format: "pem" }) as string),
      "is a private key",
    ],
    [
      "nonsense",
      "EdDSA",
      pem("-----BEGIN PUBLIC KEY-----\nnonsense\n-----END PUBLIC KEY-----"),
      "is not a public key",
    ],
    ["a key set for HS256", "HS256", { kind: "jwks", url: "http://127.0.0.1:1/" }, "its keys are public"],
  ])("%s", (_, algorithm, key, line) => {
    expect(() => authorizeWith({ algorithm, key })).toThrow(line);
  });
});
