import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { decodeJwt, jwtVerify } from "jose";
import { afterAll, beforeAll, expect, it } from "vitest";

import { readOrCreateSecret } from "../../dev/data-folder.ts";
import { ALL_SCOPES } from "../../dev/token.ts";
import { SCOPES } from "../../server/auth/scopes.ts";
import { environment } from "./launcher.ts";

let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "weir-token-"));
});

afterAll(() => rmSync(folder, { recursive: true }));

/** Runs `npm run token` with these arguments, without a Weir that runs. */
function token(...args: readonly string[]): { status: number | null; stdout: string; stderr: string } {
  const entry = join(import.meta.dirname, "../../dev/token.ts");
  const env = { ...environment(), WEIR_DEV_DATA_DIR: folder };
  return spawnSync(process.execPath, [entry, ...args], { env, encoding: "utf8" });
}

it("knows the server's scopes", () => {
  expect(ALL_SCOPES).toEqual(SCOPES);
});

it("prints a token alone, signed with the development key, with every scope for a day by default", async () => {
  const { status, stdout, stderr } = token();
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  const secret = readOrCreateSecret(join(folder, "jwt-secret"));
  const { payload, protectedHeader } = await jwtVerify(stdout.trim(), Buffer.from(secret), {
    issuer: "weir-dev",
  });
  expect(stdout).toMatch(/^\S+\n$/);
  expect(protectedHeader.alg).toBe("HS256");
  expect(payload).toMatchObject({ sub: "dev", scope: "events.write events.read admin.read admin.write" });
  expect((payload.exp ?? 0) - (payload.iat ?? 0)).toBe(24 * 3600);
  expect(statSync(join(folder, "jwt-secret")).mode & 0o777).toBe(0o600);
});

it("signs with the key of the Weir whose settings the shell has read, and of no other issuer's", async () => {
  const secret = "of another folder, thirty-two bytes or more";
  const signed = (issuer: string): string => {
    const entry = join(import.meta.dirname, "../../dev/token.ts");
    const own = { WEIR_JWT_ISSUER: issuer, WEIR_JWT_SECRET: secret, WEIR_DEV_DATA_DIR: folder };
    return spawnSync(process.execPath, [entry], { env: { ...environment(), ...own }, encoding: "utf8" })
      .stdout;
  };
  await expect(jwtVerify(signed("weir-dev").trim(), Buffer.from(secret))).resolves.toBeDefined();
  await expect(jwtVerify(signed("https://login.example").trim(), Buffer.from(secret))).rejects.toThrow(
    /signature/,
  );
});

it("takes scopes, subject and life", () => {
  const { stdout } = token("--scope", "events.write,events.read", "--sub", "alice", "--ttl", "90m");
  const payload = decodeJwt(stdout.trim());
  expect(payload).toMatchObject({ sub: "alice", scope: "events.write events.read" });
  expect((payload.exp ?? 0) - (payload.iat ?? 0)).toBe(90 * 60);
});

it.each([
  [["--scope", "events.wirte"], "--scope: events.wirte is not a scope"],
  [["--scope", ""], "--scope: nothing is not a scope"],
  [["--ttl", "soon"], "--ttl: must be a duration"],
  [["--ttl", "0s"], "--ttl: must be a duration"],
  [["--who", "me"], "Unknown option '--who'"],
])("refuses %j, and says what there is", (args, fault) => {
  const { status, stdout, stderr } = token(...args);
  expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
  expect(stderr).toContain(fault);
  expect(stderr).toContain("Usage: npm run token");
});
