import { randomUUID } from "node:crypto";

import { Code } from "@connectrpc/connect";
import { beforeAll, describe, expect, test } from "vitest";

import { type Redrive, RedriveState } from "#gen/weir/admin/v1/dead_letter_pb.ts";

import { createClients, refusalOf } from "./clients.ts";
import { publish, sql, usePoisoned } from "./poison.ts";

const soon = { timeout: 20_000, interval: 50 };
const suite = usePoisoned();

beforeAll(async () => {
  const poison = (key: string) => ({ key: Buffer.from(key), value: Buffer.from("no event") });
  await publish(
    suite.weir,
    Array.from({ length: 30 }, (_, index) => poison(`/${index}`)),
  );
  await suite.untilListed(30);
});

async function seen({ name }: Pick<Redrive, "name">): Promise<Redrive> {
  const { redrive } = await suite.clients.deadLetters.getRedrive({ name });
  if (redrive === undefined) throw new Error("an answer without a redrive");
  return redrive;
}

async function newestEntry() {
  const { auditEntries } = await suite.clients.audit.listAuditEntries({ pageSize: 1 });
  return auditEntries[0]!;
}

describe("a redrive", () => {
  test("is a count unless the caller says otherwise: by action, and nothing starts", async () => {
    await suite.insertLetter({ offset: 8_000, topic: "other.topic" });
    await suite.insertLetter({ offset: 8_001, attempt: 3 });
    const end = await suite.logEnd();
    const { redrive, truncated } = await suite.clients.deadLetters.startRedrive({});
    expect(redrive).toMatchObject({
      name: "",
      dryRun: true,
      state: RedriveState.UNSPECIFIED,
      maxPerSecond: 1_000,
      startedBy: "alice",
      counts: { replayed: 30n, foreignTopic: 1n, budgetExhausted: 1n, undecodable: 0n },
    });
    expect(truncated).toBe(false);
    const some = await suite.clients.deadLetters.startRedrive({ reason: "MALFORMED", dryRun: true });
    expect(some.redrive?.counts).toMatchObject({ replayed: 0n, foreignTopic: 1n, budgetExhausted: 1n });
    const later = await suite.clients.deadLetters.startRedrive({ filter: "(offset>=8000) partition=0" });
    expect(later.redrive).toMatchObject({ filter: "offset >= 8000 AND partition = 0" });
    expect(later.redrive?.counts).toMatchObject({ replayed: 0n, foreignTopic: 1n, budgetExhausted: 1n });
    expect((await suite.clients.deadLetters.listRedrives({})).redrives).toEqual([]);
    expect(await suite.logEnd()).toBe(end);
    expect(await newestEntry()).toMatchObject({
      method: "weir.admin.v1.DeadLetterAdminService/StartRedrive",
      dryRun: true,
      result: "OK",
    });
    await sql(suite.weir, 'delete from consumer.dead_letter where "offset" >= 8000');
  });

  test("is run by the workers, and a letter that it makes is left for another", async () => {
    const { redrive } = await suite.clients.deadLetters.startRedrive({
      reason: "UNKNOWN_MODE",
      dryRun: false,
    });
    expect(redrive).toMatchObject({ dryRun: false, state: RedriveState.RUNNING, reason: "UNKNOWN_MODE" });
    expect(redrive?.name).toMatch(/^redrives\/[0-9a-f-]{36}$/);
    await expect.poll(async () => (await seen(redrive!)).state, soon).toBe(RedriveState.COMPLETED);
    const done = await seen(redrive!);
    expect(done).toMatchObject({ error: "", counts: { replayed: 30n } });
    expect(done.endTime).toBeDefined();
    // They fail once more: their letters come after the snapshot.
    await suite.untilListed(60);
    expect((await suite.clients.deadLetters.getDeadLetterDepth({})).replayed).toBe(30n);
    expect(await newestEntry()).toMatchObject({
      dryRun: false,
      result: "OK",
      detail: { request: { reason: "UNKNOWN_MODE" }, outcome: { redrive: redrive?.name } },
    });
  });

  test("is refused while another has not ended, by its name; and is paused, resumed and cancelled", async () => {
    const { deadLetters } = suite.clients;
    const { redrive } = await deadLetters.startRedrive({ maxPerSecond: 5, dryRun: false });
    const { name } = redrive!;
    expect(await refusalOf(deadLetters.startRedrive({ dryRun: false }))).toMatchObject({
      code: Code.FailedPrecondition,
      reason: "REDRIVE_OPEN",
      metadata: { redrive: name },
    });
    expect(await newestEntry()).toMatchObject({ result: "REDRIVE_OPEN" });
    await expect.poll(async () => (await seen({ name })).counts?.replayed ?? 0n, soon).toBeGreaterThan(0n);
    expect((await seen({ name })).worker).not.toBe("");

    expect((await deadLetters.pauseRedrive({ name })).redrive?.state).toBe(RedriveState.PAUSED);
    expect(await newestEntry()).toMatchObject({ resource: name, result: "OK" });
    await expect.poll(async () => (await seen({ name })).worker, soon).toBe("");
    const paused = await seen({ name });
    expect(paused.counts!.replayed).toBeLessThan(30n);
    expect((await deadLetters.pauseRedrive({ name })).redrive?.state).toBe(RedriveState.PAUSED);

    expect((await deadLetters.resumeRedrive({ name })).redrive?.state).toBe(RedriveState.RUNNING);
    await expect
      .poll(async () => (await seen({ name })).counts!.replayed, soon)
      .toBeGreaterThan(paused.counts!.replayed);
    const { redrive: cancelled } = await deadLetters.cancelRedrive({ name });
    expect(cancelled).toMatchObject({ state: RedriveState.CANCELLED });
    expect((await deadLetters.cancelRedrive({ name })).redrive?.state).toBe(RedriveState.CANCELLED);
    for (const call of [deadLetters.resumeRedrive, deadLetters.pauseRedrive]) {
      expect(await refusalOf(call({ name }))).toMatchObject({
        code: Code.FailedPrecondition,
        reason: "REDRIVE_ENDED",
        metadata: { state: "CANCELLED" },
      });
    }
  });

  test("is listed, those started last first, page by page", async () => {
    const { deadLetters } = suite.clients;
    const all = (await deadLetters.listRedrives({})).redrives.map(({ name }) => name);
    expect(all).toHaveLength(2);
    const first = await deadLetters.listRedrives({ pageSize: 1 });
    expect(first.redrives).toMatchObject([{ state: RedriveState.CANCELLED }]);
    const second = await deadLetters.listRedrives({ pageSize: 1, pageToken: first.nextPageToken });
    expect(second).toMatchObject({ redrives: [{ state: RedriveState.COMPLETED }], nextPageToken: "" });
    expect([...first.redrives, ...second.redrives].map(({ name }) => name)).toEqual(all);
  });

  test("is refused with every fault, and by name where there is none", async () => {
    const { deadLetters } = suite.clients;
    const start = await refusalOf(
      deadLetters.startRedrive({ filter: "tags:x", reason: "NONE", maxPerSecond: -1 }),
    );
    expect(start.violations.map(({ field }) => field).toSorted()).toEqual([
      "filter",
      "max_per_second",
      "reason",
    ]);
    const list = await refusalOf(deadLetters.listRedrives({ pageSize: -1, pageToken: "x" }));
    expect(list.violations.map(({ field }) => field).toSorted()).toEqual(["page_size", "page_token"]);
    for (const call of [deadLetters.getRedrive, deadLetters.pauseRedrive, deadLetters.cancelRedrive]) {
      expect(await refusalOf(call({ name: "redrives/1" }))).toMatchObject({ reason: "INVALID_NAME" });
      expect(await refusalOf(call({ name: `redrives/${randomUUID()}` }))).toMatchObject({
        code: Code.NotFound,
        reason: "REDRIVE_NOT_FOUND",
      });
    }
  });

  test("is read with admin.read, and written with admin.write alone", async () => {
    const reader = createClients(
      suite.weir.baseUrl,
      await suite.weir.token({ scope: "admin.read" }),
    ).deadLetters;
    expect((await reader.listRedrives({})).redrives).toHaveLength(2);
    for (const call of [reader.startRedrive, reader.pauseRedrive, reader.resumeRedrive, reader.cancelRedrive])
      expect(await refusalOf(call({}))).toMatchObject({ reason: "SCOPE_MISSING" });
  });
});
