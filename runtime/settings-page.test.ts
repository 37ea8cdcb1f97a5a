import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { SETTINGS } from "./settings.ts";
import { settingsPage } from "./settings-page.ts";
import { type AnyGroup } from "./settings/setting.ts";

const names = Object.values<AnyGroup>(SETTINGS).flatMap((group) =>
  Object.values(group.settings).map((setting) => setting.name),
);

/** What `npm run config` prints in an environment, and its exit code. */
function list(env: Readonly<Record<string, string>>): {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
} {
  const program = join(import.meta.dirname, "list-settings.ts");
  return spawnSync(process.execPath, [program], { env, encoding: "utf8" });
}

describe("the page of settings", () => {
  it("has a row for every setting, and no name twice", () => {
    expect(new Set(names).size).toBe(names.length);
    const rows = [...settingsPage().matchAll(/^\| `(WEIR_\w+)`/gm)].map((match) => match[1]);
    expect(rows).toEqual(names);
  });
});

describe("npm run config", () => {
  it("shows no user or password of a URL that may have none", () => {
    const { stdout, stderr } = list({
      WEIR_JWKS_URL: "https://alice:hunter2@issuer/keys",
      WEIR_JWT_ALGORITHM: "ES256",
    });
    expect(stdout + stderr).not.toContain("hunter2");
    expect(stderr).toContain("  WEIR_JWKS_URL must not hold a user name or password");
  });

  it("lists every setting with its value, unit, default and meaning", () => {
    const { stdout: text } = list({ WEIR_PORT: "9090" });
    expect(
      [...text.matchAll(/^ {2}(WEIR_\w+) = /gm)].map((match) => match[1]).slice(0, names.length),
    ).toEqual(names);
    expect(text).toContain("  WEIR_PORT = 9090\n      The one port for Connect");
    expect(text).toContain("      port; default 8080\n");
    expect(text).toContain("  WEIR_METRICS_PORT = (not set)\n");
  });

  it("ends well where nothing is wrong, and says what it ignores", () => {
    const { status, stderr } = list({
      WEIR_DATABASE_URL: "postgres://weir@db/weir",
      WEIR_KAFKA_BROKERS: "kafka:9092",
      WEIR_JWT_ALGORITHM: "EdDSA",
      WEIR_JWKS_URL: "https://issuer/keys",
      WEIR_PROT: "1",
    });
    expect(stderr).toBe("WEIR_PROT is not a setting and is ignored; did you mean WEIR_PORT?\n");
    expect(status).toBe(0);
  });

  it("lists all the same where something is wrong, says what, and ends with 1", () => {
    const { status, stdout, stderr } = list({ WEIR_PORT: "99999" });
    expect(stdout).toContain("  WEIR_PORT = 99999\n");
    expect(stderr).toContain("  WEIR_PORT must be from 0 to 65535\n");
    expect(stderr).toContain("  WEIR_KAFKA_BROKERS is not set.");
    expect(status).toBe(1);
  });

  it("shows no secret, and says what is wrong", () => {
    const { stdout, stderr } = list({
      WEIR_DATABASE_URL: "postgres://weir:hunter2@db/weir",
      WEIR_READ_DATABASE_URL: "hunter2",
      WEIR_JWT_SECRET: "hunter2",
      WEIR_JWT_ALGORITHM: "HS256",
      WEIR_KAFKA_PASSWORD: "hunter2",
      WEIR_OTLP_ENDPOINT: "http://alice:hunter2@collector:4318/hidden?a=b@c",
      WEIR_KAFKA_BROKER: "kafka:9092",
    });
    expect(stdout + stderr).not.toContain("hunter2");
    expect(stdout).toContain("  WEIR_OTLP_ENDPOINT = http://(hidden)@collector:4318/hidden?a=b@c\n");
    expect(stdout).toContain("  WEIR_DATABASE_URL = (set, hidden)\n");
    expect(stderr).toContain(
      "  WEIR_JWT_SECRET must have at least 32 bytes, 48 for HS384, 64 for HS512; it has 7\n",
    );
    expect(stderr).toContain(
      "WEIR_KAFKA_BROKER is not a setting and is ignored; did you mean WEIR_KAFKA_BROKERS?\n",
    );
  });
});
