import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { migrate } from "#postgres/migrate.ts";

import { type Child, untilReady } from "../../dev/child.ts";
import { cacheFolder, fetchKafkaJars } from "../../dev/kafka-jars.ts";
import { startKafka } from "../../dev/kafka.ts";
import { freePort } from "../../dev/ports.ts";
import { createWeirAdminClient } from "../../sdk/admin.ts";
import { openBroker } from "../kafka/broker.ts";
import { createProxy } from "../postgres/fixture.ts";
import { createEmptyDatabase, createTestDatabase } from "../support/database.ts";
import { silentLogger } from "../support/logger.ts";
import { deleteTopics, readTopic } from "../support/topic.ts";
import { startWeir, type Weir } from "../support/weir.ts";
import { createClients, httpRefusalOf, PROTOCOLS, refusalOf, statusRefusalOf } from "./clients.ts";
import { sketch, toMessage, toStructured } from "./events.ts";

async function post(weir: Weir, token: string, event = sketch()): Promise<Response> {
  const { headers, body } = toStructured(event);
  const authorized = { ...headers, authorization: `Bearer ${token}` };
  return fetch(`${weir.baseUrl}/v1/events`, { method: "POST", headers: authorized, body });
}

async function readyServices(weir: Weir): Promise<Record<string, boolean>> {
  const response = await fetch(`${weir.baseUrl}/readyz`);
  const { services } = (await response.json()) as { services: Record<string, { ready: boolean }> };
  return Object.fromEntries(Object.entries(services).map(([name, { ready }]) => [name, ready]));
}

test("events are taken in while PostgreSQL is away, reads are refused, and both work when it is back", async () => {
  await using database = await createTestDatabase();
  await using proxy = await createProxy(database.url);
  await using weir = await startWeir({ databaseUrl: proxy.url });
  const token = await weir.token();
  const { ingest, search } = createClients(weir.baseUrl, token);
  expect((await search.searchEvents({})).events).toEqual([]);

  await proxy.cut();
  await untilReady(weir.server, async () => !(await readyServices(weir))["weir.v1.SearchService"], {
    timeoutMs: 10_000,
  });
  expect(await readyServices(weir)).toMatchObject({
    "weir.v1.IngestService": true,
    "weir.v1.SearchService": false,
  });
  const { receipt } = await ingest.createEvent({ event: toMessage(sketch()) });
  expect(receipt?.position?.offset).toBeGreaterThanOrEqual(0n);
  expect((await post(weir, token)).status).toBe(200);
  for (const read of [() => search.searchEvents({}), () => search.getEvent({ name: "events/a:b" })]) {
    const refusal = await refusalOf(read());
    expect(refusal).toMatchObject({ code: Code.Unavailable, reason: "DATABASE_UNAVAILABLE" });
    expect(refusal.retryAfterMs).toBeGreaterThan(0);
  }

  await proxy.restore();
  await untilReady(weir.server, async () => (await readyServices(weir))["weir.v1.SearchService"] === true, {
    timeoutMs: 10_000,
  });
  expect((await search.searchEvents({})).events).toEqual([]);
});

test("a database without the schema is told of, with what to run, until it is migrated; events are taken in", async () => {
  await using database = await createEmptyDatabase();
  await using weir = await startWeir({ databaseUrl: database.url, until: "listening" });
  const token = await weir.token();
  const { ingest, search } = createClients(weir.baseUrl, token);
  await untilReady(weir.server, async () => (await readyServices(weir))["weir.v1.IngestService"] === true, {
    timeoutMs: 20_000,
  });
  const report = await fetch(`${weir.baseUrl}/readyz?service=weir.v1.SearchService`);
  expect(report.status).toBe(503);
  expect(await report.json()).toMatchObject({
    reasons: [
      expect.stringMatching(
        /^postgresql: the schema is behind: the database lacks 0001\S+, .*: run `npm run migrate`$/,
      ),
    ],
  });
  const { deadLetters } = createWeirAdminClient({ baseUrl: weir.baseUrl, token });
  for (const read of [
    () => search.searchEvents({}),
    () => search.getEvent({ name: "events/a:b" }),
    () => deadLetters.listDeadLetters({}),
  ]) {
    const refusal = await refusalOf(read());
    expect(refusal).toMatchObject({ code: Code.Unavailable, reason: "DATABASE_UNAVAILABLE" });
    expect(refusal.message).toContain("the schema is behind");
    expect(refusal.message).toContain("npm run migrate");
    expect(refusal.retryAfterMs).toBeGreaterThan(0);
  }
  expect((await ingest.createEvent({ event: toMessage(sketch()) })).receipt?.position?.offset).toBe(0n);

  await migrate({ url: database.url, logger: silentLogger });
  await untilReady(weir.server, async () => (await readyServices(weir))["weir.v1.SearchService"] === true, {
    timeoutMs: 10_000,
  });
  expect((await search.searchEvents({})).events).toEqual([]);
  expect(weir.log().filter(({ level }) => level === "error")).toEqual([]);
});

describe("without a broker", () => {
  let weir: Weir;
  let token: string;
  beforeAll(async () => {
    weir = await startWeir({
      brokers: `127.0.0.1:${await freePort()}`,
      env: { WEIR_PUBLISH_TIMEOUT: "1s" },
      until: "listening",
    });
    token = await weir.token();
  });
  afterAll(() => weir[Symbol.asyncDispose]());

  test.each(PROTOCOLS)(
    "an event is refused with the promise that nothing was published, by %s",
    async (protocol) => {
      const { ingest } = createClients(weir.baseUrl, token, protocol);
      const refusal = await refusalOf(ingest.createEvent({ event: toMessage(sketch()) }));
      expect(refusal).toMatchObject({ code: Code.Unavailable, reason: "PRODUCER_UNAVAILABLE" });
      expect(refusal.message).toContain("Nothing was published");
      expect(refusal.metadata).toEqual({ cause: "BROKER_AWAY" });
      expect(refusal.retryAfterMs).toBe(1_000);
    },
  );

  test("an event is refused with 503 and Retry-After by HTTP", async () => {
    const response = await post(weir, token);
    expect(response.headers.get("retry-after")).toBe("1");
    expect(await httpRefusalOf(response)).toMatchObject({
      status: 503,
      reason: "PRODUCER_UNAVAILABLE",
      retryAfterMs: 1_000,
    });
  });

  test("an event is still judged", async () => {
    const { ingest } = createClients(weir.baseUrl, token);
    const refusal = await refusalOf(ingest.createEvent({ event: toMessage(sketch({ id: "" })) }));
    expect(refusal).toMatchObject({ code: Code.InvalidArgument, reason: "INVALID_ATTRIBUTES" });
    expect(await ingest.validateEvent({ event: toMessage(sketch()) })).toMatchObject({ valid: true });
  });
});

test("what the broker itself refuses is told as what it is", async () => {
  await using broker = await openBroker();
  await using weir = await startWeir({ env: { WEIR_PUBLISH_TIMEOUT: "2s" } });
  const token = await weir.token();
  const { ingest } = createClients(weir.baseUrl, token);
  const large = sketch({ datacontenttype: "application/json" }, JSON.stringify("x".repeat(20_000)));

  await broker.admin.changeTopic(weir.topic, { "max.message.bytes": "10000" });
  const tooLarge = { code: Code.InvalidArgument, reason: "TOO_LARGE", retryAfterMs: undefined };
  const call = await refusalOf(ingest.createEvent({ event: toMessage(large) }));
  expect(call).toMatchObject(tooLarge);
  expect(call.violations.map(({ field }) => field)).toEqual(["event"]);
  expect(await httpRefusalOf(await post(weir, token, large))).toMatchObject({ ...tooLarge, status: 413 });
  await ingest.createEvent({ event: toMessage(sketch()) });

  await deleteTopics(weir.brokers, [weir.topic]);
  const missing = await refusalOf(ingest.createEvent({ event: toMessage(sketch()) }));
  expect(missing).toMatchObject({
    code: Code.Unavailable,
    reason: "PRODUCER_UNAVAILABLE",
    retryAfterMs: 1_000,
  });
  expect(missing.metadata).toEqual({ cause: "TOPIC_MISSING" });
});

test("a broker that takes no record at all is seen in the readiness of ingest, until it takes one", async () => {
  await using broker = await openBroker();
  await using weir = await startWeir();
  const token = await weir.token();
  const isIngestReady = async (): Promise<boolean> => {
    await post(weir, token);
    return (await readyServices(weir))["weir.v1.IngestService"] === true;
  };
  const bound = "message.timestamp.before.max.ms";

  await broker.admin.changeTopic(weir.topic, { [bound]: "0" });
  await untilReady(weir.server, async () => !(await isIngestReady()), { timeoutMs: 10_000 });
  const report = await fetch(`${weir.baseUrl}/readyz?service=weir.v1.IngestService`);
  expect(await report.json()).toMatchObject({
    reasons: [expect.stringMatching(/^kafka: .*INVALID_TIMESTAMP: its clock and that of this server/)],
  });

  await broker.admin.changeTopic(weir.topic, { [bound]: "3600000" });
  await untilReady(weir.server, isIngestReady, { timeoutMs: 10_000 });
  expect((await post(weir, token)).status).toBe(200);
});

describe("with a broker that stops answering", () => {
  let broker: Child;
  let weir: Weir;
  let token: string;
  const stack = new AsyncDisposableStack();
  beforeAll(async () => {
    const folder = mkdtempSync(join(tmpdir(), "weir-frozen-"));
    stack.defer(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
    const [port, controllerPort] = [await freePort(), await freePort()];
    const jars = await fetchKafkaJars(cacheFolder(), { say: () => {} });
    broker = await startKafka({ jars, dataDir: join(folder, "kafka"), logDir: folder, port, controllerPort });
    stack.defer(() => broker.stop());
    weir = stack.use(
      await startWeir({
        brokers: `127.0.0.1:${port}`,
        // Room for one record that is sent and two that wait behind it.
        env: { WEIR_REQUEST_TIMEOUT: "3s", WEIR_PRODUCER_QUEUE: "3" },
      }),
    );
    token = await weir.token();
  });
  afterAll(() => stack.disposeAsync());

  test("each sender learns at the deadline whether its event may be on the log, and a repeat is taken", async () => {
    const { ingest } = createClients(weir.baseUrl, token);
    const [sent, waiting] = [toMessage(sketch()), toMessage(sketch())];
    await ingest.createEvent({ event: toMessage(sketch()) });

    process.kill(broker.pid, "SIGSTOP");
    try {
      const sentCall = refusalOf(ingest.createEvent({ event: sent }));
      await untilReady(weir.server, async () => (await queued(weir)) === 1, { timeoutMs: 2_500 });
      const waitingCall = refusalOf(ingest.createEvent({ event: waiting }));
      const waitingPost = post(weir, token).then(httpRefusalOf);
      await untilReady(weir.server, async () => (await queued(weir)) === 3, { timeoutMs: 2_500 });

      const overflow = await refusalOf(ingest.createEvent({ event: toMessage(sketch()) }));
      expect(overflow).toMatchObject({
        code: Code.Unavailable,
        reason: "PRODUCER_UNAVAILABLE",
        retryAfterMs: 1_000,
      });
      expect(overflow.metadata).toEqual({ cause: "QUEUE_FULL" });
      const unknown = await sentCall;
      expect(unknown).toMatchObject({
        code: Code.Unavailable,
        reason: "PUBLISH_OUTCOME_UNKNOWN",
        retryAfterMs: 1_000,
      });
      expect(unknown.message).toMatch(/unknown whether.*Send it again/s);
      const unpublished = {
        code: Code.Unavailable,
        reason: "PRODUCER_UNAVAILABLE",
        metadata: { cause: "CANCELLED" },
      };
      expect(await waitingCall).toMatchObject(unpublished);
      expect(await waitingPost).toMatchObject({ ...unpublished, status: 503 });
    } finally {
      process.kill(broker.pid, "SIGCONT");
    }

    await untilReady(weir.server, async () => (await queued(weir)) === 0, { timeoutMs: 20_000 });
    const { receipt } = await ingest.createEvent({ event: sent });
    expect(receipt?.name).toContain(sent.id);
    const records = await readTopic(weir.brokers, weir.topic);
    const ids = records.map(({ headers }) => headers.find(([name]) => name === "ce_id")?.[1]?.toString());
    expect(ids).toContain(sent.id);
    expect(ids).not.toContain(waiting.id);
  });

  test("a batch says of each event what is known of it at the deadline", async () => {
    const { ingest } = createClients(weir.baseUrl, token);
    const events = Array.from({ length: 5 }, (_, index) => toMessage(sketch({ source: `/batch/${index}` })));
    events[1] = toMessage(sketch({ id: "" }));

    process.kill(broker.pid, "SIGSTOP");
    try {
      const { results } = await ingest.batchCreateEvents({ events });
      const refusals = results.map(({ outcome }) =>
        outcome.case === "error" ? statusRefusalOf(outcome.value) : undefined,
      );
      const unknown = { code: Code.Unavailable, reason: "PUBLISH_OUTCOME_UNKNOWN", retryAfterMs: 1_000 };
      expect(refusals).toMatchObject([
        unknown,
        { code: Code.InvalidArgument, reason: "INVALID_ATTRIBUTES" },
        unknown,
        unknown,
        { code: Code.Unavailable, reason: "PRODUCER_UNAVAILABLE", metadata: { cause: "QUEUE_FULL" } },
      ]);
    } finally {
      process.kill(broker.pid, "SIGCONT");
    }
    await untilReady(weir.server, async () => (await queued(weir)) === 0, { timeoutMs: 20_000 });
    const { results } = await ingest.batchCreateEvents({ events: events.slice(2) });
    expect(results.map(({ outcome }) => outcome.case)).toEqual(["receipt", "receipt", "receipt"]);
  });
});

/** Records that wait for the broker or are on the way to it. */
async function queued(weir: Weir): Promise<number> {
  const page = await (await fetch(`${weir.baseUrl}/metrics`)).text();
  return Number(/^weir_producer_queue_records (\d+)$/m.exec(page)?.[1]);
}
