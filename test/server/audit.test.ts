import { Code } from "@connectrpc/connect";
import { beforeAll, describe, expect, test } from "vitest";

import { createClients, refusalOf } from "./clients.ts";
import { publish, sql, usePoisoned } from "./poison.ts";

const suite = usePoisoned();
const METHOD = "weir.admin.v1.DeadLetterAdminService/ReplayDeadLetters";

beforeAll(async () => {
  await publish(suite.weir, [{ value: Buffer.from("no event") }]);
  await suite.untilListed(1);
}, 90_000);

describe("the audit", () => {
  test("has every call of a method that writes: who, what, dry or not, and what came of it", async () => {
    const bob = createClients(suite.weir.baseUrl, await suite.weir.token({ sub: "bob" }), "gRPC");
    const { deadLetters } = suite.clients;
    const name = suite.nameOf(0);
    await deadLetters.replayDeadLetters({ names: [name] });
    await bob.deadLetters.replayDeadLetters({ reason: "MALFORMED", limit: 3, dryRun: false });
    await refusalOf(deadLetters.replayDeadLetters({ names: [name, suite.nameOf(9)], dryRun: false }));
    await refusalOf(deadLetters.replayDeadLetters({ filter: "a\0b", names: ["x"] }));
    await deadLetters.replayDeadLetters({ names: [name], dryRun: false });
    // What only reads is not in it.
    await deadLetters.listDeadLetters({});
    const { auditEntries } = await suite.clients.audit.listAuditEntries({});
    expect(
      auditEntries.map(({ principal, method, resource, dryRun, result, detail }) => ({
        principal,
        method,
        resource,
        dryRun,
        result,
        detail,
      })),
    ).toEqual([
      {
        principal: "alice",
        method: METHOD,
        resource: name,
        dryRun: false,
        result: "OK",
        detail: {
          request: { names: [name], dryRun: false },
          outcome: { published: 1, skipped: 0, refused: 0, scanned: 1, truncated: false },
        },
      },
      {
        principal: "alice",
        method: METHOD,
        resource: "x",
        dryRun: true,
        result: "INVALID_NAME",
        detail: { request: { filter: "a\ufffdb", names: ["x"] } },
      },
      {
        principal: "alice",
        method: METHOD,
        resource: "",
        dryRun: false,
        result: "REPLAY_SET_UNSATISFIABLE",
        detail: { request: { names: [name, suite.nameOf(9)], dryRun: false } },
      },
      {
        principal: "bob",
        method: METHOD,
        resource: "",
        dryRun: false,
        result: "OK",
        detail: {
          request: { reason: "MALFORMED", limit: 3, dryRun: false },
          outcome: { published: 0, skipped: 0, refused: 0, scanned: 0, truncated: false },
        },
      },
      {
        principal: "alice",
        method: METHOD,
        resource: name,
        dryRun: true,
        result: "OK",
        detail: {
          request: { names: [name] },
          outcome: { published: 0, skipped: 0, refused: 0, scanned: 1, truncated: false },
        },
      },
    ]);
    expect(auditEntries[0]!.name).toMatch(/^auditEntries\/\d+$/);
    expect(Number(auditEntries[0]!.time!.seconds) * 1_000).toBeGreaterThan(Date.now() - 60_000);
  });

  test("is listed page by page", async () => {
    const { audit } = suite.clients;
    const whole = await audit.listAuditEntries({ pageSize: 200 });
    expect(whole.nextPageToken).toBe("");
    const names: string[] = [];
    let pageToken = "";
    do {
      const page = await audit.listAuditEntries({ pageSize: 2, pageToken });
      names.push(...page.auditEntries.map(({ name }) => name));
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
    expect(names).toEqual(whole.auditEntries.map(({ name }) => name));
    expect(await refusalOf(audit.listAuditEntries({ pageSize: -1, pageToken: "x" }))).toMatchObject({
      code: Code.InvalidArgument,
      violations: [{ field: "page_size" }, { field: "page_token" }],
    });
  });

  test("comes first: where its entry cannot be written, nothing is done", async () => {
    await suite.untilListed(2);
    const [before, name] = [await suite.logEnd(), suite.nameOf(1)];
    await sql(suite.weir, "alter table admin.audit_entry rename to lost_entry");
    const refused = await refusalOf(
      suite.clients.deadLetters.replayDeadLetters({ names: [name], dryRun: false }),
    );
    expect(refused).toMatchObject({ code: Code.Unavailable, reason: "DATABASE_UNAVAILABLE" });
    expect(refused.retryAfterMs).toBeGreaterThan(0);
    await sql(suite.weir, "alter table admin.lost_entry rename to audit_entry");
    expect(await suite.logEnd()).toBe(before);
    expect(await suite.clients.deadLetters.replayDeadLetters({ names: [name], dryRun: false })).toMatchObject(
      {
        published: 1,
      },
    );
  });
});
