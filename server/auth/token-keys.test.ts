import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import { type AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, type JWK, SignJWT } from "jose";
import { afterEach, describe, expect, it } from "vitest";
import { type Logger, type LogFields } from "#runtime/log.ts";
import { type Probe } from "#runtime/service.ts";
import { type Authorize, createAuthorize } from "./auth.ts";
import { createTokenKeys } from "./token-keys.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

interface Signer {
  readonly jwk: JWK;
  readonly token: (exp?: number) => Promise<string>;
}

const START = Date.UTC(2026, 10, 30);

async function createSigner(kid: string): Promise<Signer> {
  const { publicKey, privateKey } = await generateKeyPair("ES256", { extractable: true });
  const jwk = { ...(await exportJWK(publicKey)), kid, alg: "ES256", use: "sig" };
  let serial = 0;
  return {
    jwk,
    // Each token differs, so that none is remembered.
    token: () =>
      new SignJWT({ sub: "alice", scope: "events.read", jti: String((serial += 1)) })
        .setProtectedHeader({ alg: "ES256", kid })
        .setExpirationTime(START / 1000 + 30 * 24 * 3600)
        .sign(privateKey),
  };
}

/** An issuer whose answer can be changed, and which counts how often it is asked. */
async function createIssuer(): Promise<{
  url: string;
  keys: JWK[];
  answer: RequestListener | undefined;
  asked: number;
}> {
  const issuer = { url: "", keys: [] as JWK[], answer: undefined as RequestListener | undefined, asked: 0 };
  const server = createServer((request, response) => {
    issuer.asked += 1;
    if (issuer.answer !== undefined) issuer.answer(request, response);
    else response.end(JSON.stringify({ keys: issuer.keys }));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  stack.defer(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  issuer.url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/keys`;
  return issuer;
}

function createClock(url: string): {
  authorize: (signer: Signer) => Promise<string>;
  pass: (ms: number) => void;
  probe: Probe;
  lines: (readonly [level: "info" | "warn", message: string, fields: LogFields | undefined])[];
} {
  let now = START;
  const lines: ReturnType<typeof createClock>["lines"] = [];
  const keys = createTokenKeys({
    source: { kind: "jwks", url },
    algorithm: "ES256",
    log: {
      info: (message, fields) => void lines.push(["info", message, fields]),
      warn: (message, fields) => void lines.push(["warn", message, fields]),
    } as Logger,
    now: () => now,
  });
  const authorize: Authorize = createAuthorize({
    algorithm: "ES256",
    keys,
    issuer: undefined,
    audience: undefined,
    leewayMs: 30_000,
    now: () => now,
  });
  return {
    lines,
    probe: () => keys.probe?.(),
    pass: (ms) => (now += ms),
    async authorize(signer) {
      const authorization = await authorize(`Bearer ${await signer.token()}`, "events.read");
      return authorization.ok ? authorization.caller.principal : authorization.failure.reason;
    },
  };
}

describe("an issuer's key set", () => {
  it("is fetched once for many tokens at a time", async () => {
    const [signer, issuer] = [await createSigner("a"), await createIssuer()];
    issuer.keys = [signer.jwk];
    const { authorize } = createClock(issuer.url);
    expect(await Promise.all([authorize(signer), authorize(signer), authorize(signer)])).toEqual([
      "alice",
      "alice",
      "alice",
    ]);
    expect(await authorize(signer)).toBe("alice");
    expect(issuer.asked).toBe(1);
  });

  it("is asked again for a key that it lacks, but not more often than every 30 s", async () => {
    const [first, second, stranger] = [
      await createSigner("a"),
      await createSigner("b"),
      await createSigner("c"),
    ];
    const issuer = await createIssuer();
    issuer.keys = [first.jwk];
    const { authorize, pass } = createClock(issuer.url);
    expect(await authorize(first)).toBe("alice");
    issuer.keys = [first.jwk, second.jwk];
    expect(await authorize(second)).toBe("TOKEN_INVALID");
    pass(30_000);
    expect(await authorize(second)).toBe("alice");
    expect(issuer.asked).toBe(2);
    for (let i = 0; i < 5; i += 1) expect(await authorize(stranger)).toBe("TOKEN_INVALID");
    expect(issuer.asked).toBe(2);
  });

  it("says nothing against a token by a new key while the issuer is away", async () => {
    const [first, second, issuer] = [await createSigner("a"), await createSigner("b"), await createIssuer()];
    issuer.keys = [first.jwk];
    const { authorize, pass } = createClock(issuer.url);
    expect(await authorize(first)).toBe("alice");
    issuer.answer = (_, response) => response.writeHead(503).end();
    pass(30_000);
    expect(await authorize(second)).toBe("KEYS_UNAVAILABLE");
    // Before the issuer is asked again, too; and the old key serves on.
    expect(await authorize(second)).toBe("KEYS_UNAVAILABLE");
    expect(await authorize(first)).toBe("alice");
    expect(issuer.asked).toBe(2);
    issuer.answer = undefined;
    issuer.keys = [second.jwk];
    pass(30_000);
    expect(await authorize(second)).toBe("alice");
  });

  it("lets a withdrawn key go when it is refreshed after ten minutes", async () => {
    const [first, second, issuer] = [await createSigner("a"), await createSigner("b"), await createIssuer()];
    issuer.keys = [first.jwk];
    const { authorize, pass } = createClock(issuer.url);
    expect(await authorize(first)).toBe("alice");
    issuer.keys = [second.jwk];
    pass(10 * MINUTE + 1);
    // The refresh does not hold the call that starts it.
    expect(await authorize(first)).toBe("alice");
    await expect.poll(() => authorize(first)).toBe("TOKEN_INVALID");
    expect(await authorize(second)).toBe("alice");
  });

  it("serves on for a day while the issuer is away, and no longer", async () => {
    const [signer, issuer] = [await createSigner("a"), await createIssuer()];
    issuer.keys = [signer.jwk];
    const { authorize, pass } = createClock(issuer.url);
    expect(await authorize(signer)).toBe("alice");
    issuer.answer = (_, response) => response.writeHead(503).end();
    pass(23 * HOUR);
    expect(await authorize(signer)).toBe("alice");
    await expect.poll(() => issuer.asked).toBe(2);
    pass(HOUR + 1);
    expect(await authorize(signer)).toBe("KEYS_UNAVAILABLE");
    issuer.answer = undefined;
    pass(30_000);
    expect(await authorize(signer)).toBe("alice");
  });

  it.each<[name: string, answer: RequestListener]>([
    ["an error", (_, response) => response.writeHead(500).end()],
    ["a redirect", (_, response) => response.writeHead(302, { location: "http://127.0.0.1:1/" }).end()],
    ["no JSON", (_, response) => response.end("<html>")],
    ["no key set", (_, response) => response.end("[]")],
    [
      "more than 256 KiB",
      (_, response) => response.end(JSON.stringify({ keys: [], more: "x".repeat(300_000) })),
    ],
    ["nothing", (request) => request.socket.destroy()],
  ])(
    "is KEYS_UNAVAILABLE while the issuer answers %s, and is had as soon as it is there",
    async (_, answer) => {
      const [signer, issuer] = [await createSigner("a"), await createIssuer()];
      issuer.keys = [signer.jwk];
      issuer.answer = answer;
      const { authorize, pass } = createClock(issuer.url);
      expect(await authorize(signer)).toBe("KEYS_UNAVAILABLE");
      issuer.answer = undefined;
      pass(1_000);
      expect(await authorize(signer)).toBe("alice");
    },
  );

  it("says at each turn that the issuer is away, why, and that it is back", async () => {
    const [signer, issuer] = [await createSigner("a"), await createIssuer()];
    issuer.keys = [signer.jwk];
    issuer.answer = (_, response) => response.writeHead(503).end();
    const { authorize, pass, lines } = createClock(issuer.url);
    const { url } = issuer;
    for (const _ of [1, 2]) {
      expect(await authorize(signer)).toBe("KEYS_UNAVAILABLE");
      pass(1_000);
    }
    issuer.answer = undefined;
    expect(await authorize(signer)).toBe("alice");
    issuer.answer = (request) => request.socket.destroy();
    pass(11 * MINUTE);
    expect(await authorize(signer)).toBe("alice");
    const [away, back] = ["The issuer's keys cannot be had", "The issuer's keys can be had again"];
    const reasons = ["answered 503 instead of 200", expect.stringMatching(/^fetch failed: .+/) as string];
    const effects = ["no token can be verified", "the keys that are known serve for a day"];
    await expect
      .poll(() => lines)
      .toEqual([
        ["warn", away, { url, reason: reasons[0], effect: effects[0] }],
        ["info", back, { url }],
        ["warn", away, { url, reason: reasons[1], effect: effects[1] }],
      ]);
  });

  it("is asked for by the readiness while there is none, and not once there is", async () => {
    const [signer, issuer] = [await createSigner("a"), await createIssuer()];
    issuer.keys = [signer.jwk];
    issuer.answer = (_, response) => response.writeHead(503).end();
    const { pass, probe } = createClock(issuer.url);
    expect(await probe()).toBe(
      `no token can be verified, for the keys at ${issuer.url} cannot be had: answered 503 instead of 200`,
    );
    issuer.answer = undefined;
    pass(1_000);
    expect(await probe()).toBeUndefined();
    issuer.answer = (_, response) => response.writeHead(503).end();
    pass(23 * HOUR);
    expect(await probe()).toBeUndefined();
    expect(issuer.asked).toBe(2);
  });

  it("never lends a key to an algorithm that is not the configured one", async () => {
    const issuer = await createIssuer();
    const { publicKey, privateKey } = await generateKeyPair("RS256", { extractable: true });
    issuer.keys = [{ ...(await exportJWK(publicKey)), kid: "a" }];
    const { authorize } = createClock(issuer.url);
    const token = (): Promise<string> =>
      new SignJWT({ sub: "mallory" })
        .setProtectedHeader({ alg: "RS256", kid: "a" })
        .setExpirationTime("1h")
        .sign(privateKey);
    expect(await authorize({ jwk: {}, token })).toBe("TOKEN_INVALID");
  });
});
