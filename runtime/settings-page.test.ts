import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { SETTINGS } from "./settings.ts";
import { settingsPage } from "./settings-page.ts";
import { type AnyGroup } from "./settings/setting.ts";

const names = Object.values<AnyGroup>(SETTINGS).flatMap((group) =>
  Object.values(group.settings).map((setting) => setting.name),
);

/** What `npm run config` prints in an environment. */
function list(env: Readonly<Record<string, string>>): string {
  const program = join(import.meta.dirname, "list-settings.ts");
  return execFileSync(process.execPath, [program], { env, encoding: "utf8" });
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
    const text = list({ WEIR_JWKS_URL: "https://alice:hunter2@issuer/keys", WEIR_JWT_ALGORITHM: "ES256" });
    expect(text).not.toContain("hunter2");
    expect(text).toContain("  WEIR_JWKS_URL must not hold a user name or password");
  });

  it("lists every setting with its value, unit, default and meaning", () => {
    const text = list({ WEIR_PORT: "9090" });
    expect(
      [...text.matchAll(/^ {2}(WEIR_\w+) = /gm)].map((match) => match[1]).slice(0, names.length),
    ).toEqual(names);
    expect(text).toContain("  WEIR_PORT = 9090\n      The one port for Connect");
    expect(text).toContain("      port; default 8080\n");
    expect(text).toContain("  WEIR_METRICS_PORT = (not set)\n");
    expect(text).toContain("  WEIR_KAFKA_BROKERS is not set.");
  });

  it("shows no secret, and says what is wrong", () => {
    const text = list({
      WEIR_DATABASE_URL: "postgres://weir:hunter2@db/weir",
      WEIR_READ_DATABASE_URL: "hunter2",
      WEIR_JWT_SECRET: "hunter2",
      WEIR_JWT_ALGORITHM: "HS256",
      WEIR_KAFKA_PASSWORD: "hunter2",
      WEIR_OTLP_ENDPOINT: "http://alice:hunter2@collector:4318/hidden?a=b@c",
      WEIR_KAFKA_BROKER: "kafka:9092",
    });
    expect(text).not.toContain("hunter2");
    expect(text).toContain("  WEIR_OTLP_ENDPOINT = http://(hidden)@collector:4318/hidden?a=b@c\n");
    expect(text).toContain("  WEIR_DATABASE_URL = (set, hidden)\n");
    expect(text).toContain("  WEIR_JWT_SECRET must have at least 32 bytes for HS256; it has 7\n");
    expect(text).toContain(
      "WEIR_KAFKA_BROKER is not a setting and is ignored; did you mean WEIR_KAFKA_BROKERS?\n",
    );
  });
});
