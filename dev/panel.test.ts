import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";

import { panel, postLine, quote, searchLine } from "./panel.ts";

const facts = { url: "http://127.0.0.1:8080", token: "aaa.bbb.ccc" };

/** The words that a shell makes of a line. */
function words(line: string, shell = "sh"): string[] {
  // NUL between words, for a word may hold a line's end.
  const script = `show() { for word; do printf '%s\\000' "$word"; done; }; show ${line}`;
  return execFileSync(shell, ["-c", script], { encoding: "utf8" }).split("\0").slice(0, -1);
}

describe("quote", () => {
  it.each([
    ["plain"],
    ["two words"],
    ["it's"],
    ['$HOME `id` \\ "x" !1'],
    [""],
    ["line\nend"],
    ["*?[a]~#&|;<>()"],
  ])("makes one word of %j", (text) => {
    expect(words(quote(text))).toEqual([text]);
  });
});

describe.each(["sh", "bash"])("the lines of the panel, pasted into %s", (shell) => {
  it("post an event with the token, a new id and the time of pasting", () => {
    const line = words(postLine(facts), shell);
    expect(line.slice(0, 3)).toEqual(["curl", "-sS", "http://127.0.0.1:8080/v1/events"]);
    expect(line).toContain("Authorization: Bearer aaa.bbb.ccc");
    expect(line).toContain("Content-Type: application/cloudevents+json");
    const event = JSON.parse(line.at(-1) ?? "") as Record<string, string>;
    expect(event).toMatchObject({ specversion: "1.0", source: "/hello", type: "com.example.hello" });
    expect(event["id"]).toMatch(/^hello-\d+$/);
    expect(Math.abs(Date.parse(event["time"] ?? "") - Date.now())).toBeLessThan(60_000);
  });

  it("search with the token, by reflection", () => {
    const line = words(searchLine(facts), shell);
    expect(line.slice(0, 3)).toEqual(["npx", "buf", "curl"]);
    expect(line).toContain("Authorization: Bearer aaa.bbb.ccc");
    expect(line).not.toContain("--schema");
    expect(line.at(-1)).toBe("http://127.0.0.1:8080/weir.v1.SearchService/SearchEvents");
  });
});

describe("the lines of the panel, where the server speaks TLS", () => {
  const tls = { ...facts, url: "https://127.0.0.1:8080" };

  it("do not ask who signed the certificate, and leave HTTP/2 to ALPN", () => {
    expect(words(postLine(tls)).slice(0, 4)).toEqual(["curl", "-sS", "--insecure", `${tls.url}/v1/events`]);
    expect(words(searchLine(tls)).slice(0, 4)).toEqual(["npx", "buf", "curl", "--insecure"]);
  });
});

describe("the panel", () => {
  const more = {
    ...facts,
    workersUrl: "http://127.0.0.1:9",
    tokenLife: "24 hours",
    faults: [],
    beginAnew: "/clone/.weir",
    logs: "/clone/.weir/log",
    envFile: "/clone/.weir/env",
  };

  it("names the URLs, the token alone on its line, the logs and the settings", () => {
    const text = panel({ ...more, oneCopy: true });
    expect(text).toContain("http://127.0.0.1:9/metrics\n");
    expect(text).toContain("/clone/.weir/env\n");
    expect(text).toContain("Weir runs at http://127.0.0.1:8080\n");
    expect(text.split("\n")).toContain("aaa.bbb.ccc");
    expect(text.split("\n")).toContain(postLine(facts));
    expect(text.split("\n")).toContain(searchLine(facts));
    expect(text).toContain("/clone/.weir/log");
  });

  it("says what does not work and what to do, only where that is so", () => {
    const faults = ["persist: FAILED: the checkpoint …"];
    const text = panel({ ...more, oneCopy: true, faults });
    expect(text).toContain("\n  persist: FAILED: the checkpoint …\n");
    expect(text).toContain("stop this and delete /clone/.weir.");
    expect(panel({ ...more, oneCopy: true, faults, beginAnew: undefined })).not.toContain("delete");
    expect(panel({ ...more, oneCopy: true })).not.toContain("NOT ALL");
  });

  it("says that there is one copy only where that is so", () => {
    expect(panel({ ...more, oneCopy: true })).toContain("one copy");
    expect(panel({ ...more, oneCopy: false })).not.toContain("copy");
  });
});
