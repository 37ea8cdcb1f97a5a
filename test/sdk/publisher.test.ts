import { randomBytes, randomUUID } from "node:crypto";

import { SignJWT } from "jose";
import { afterAll, beforeAll, expect, test } from "vitest";

import {
  type CloudEvent,
  cloudEvent,
  createWeirClient,
  PublishError,
  type WeirClient,
} from "../../sdk/index.ts";
import { readTopic } from "../support/topic.ts";
import { startWeir, type Weir } from "../support/weir.ts";
import { type FaultProxy, startFaultProxy } from "./fault-proxy.ts";

const run = randomUUID();

let weir: Weir;
let proxy: FaultProxy;
let client: WeirClient;
beforeAll(async () => {
  weir = await startWeir();
  proxy = await startFaultProxy(weir.baseUrl);
  client = createWeirClient({ baseUrl: proxy.baseUrl, token: () => weir.token(), timeoutMs: 5_000 });
});
afterAll(async () => {
  await proxy[Symbol.asyncDispose]();
  await weir[Symbol.asyncDispose]();
});

function event(key: string, number: number, data?: string): CloudEvent {
  const id = `${run}:${key}:${String(number)}`;
  return cloudEvent({ id, source: "/publisher", subject: key, type: "t", time: new Date(), data });
}

const numbers = (count: number): number[] => Array.from({ length: count }, (_, index) => index);

/** The ids on the log by subject, for subjects that begin so; each once, where it first stands. */
async function logged({ brokers, topic }: Weir, prefix: string): Promise<Readonly<Record<string, string[]>>> {
  const subjects: Record<string, Set<string>> = {};
  for (const { headers } of await readTopic(brokers, topic)) {
    const header = (name: string): string => String(headers.find(([each]) => each === name)?.[1]);
    const subject = header("ce_subject");
    if (subject.startsWith(prefix)) (subjects[subject] ??= new Set()).add(header("ce_id"));
  }
  return Object.fromEntries(Object.entries(subjects).map(([subject, ids]) => [subject, [...ids]]));
}

test("nothing lost, and the order of every key kept, through cuts, lost answers and a killed server", async () => {
  const [keys, count] = [40, 6_000];
  const secret = randomBytes(32).toString("hex");
  await using stack = new AsyncDisposableStack();
  const first = stack.use(await startWeir({ env: { WEIR_JWT_SECRET: secret } }));
  const faulty = stack.use(await startFaultProxy(first.baseUrl));
  const replace = async (): Promise<void> => {
    first.server.kill();
    await first.server.exited;
    const env = {
      WEIR_JWT_SECRET: secret,
      WEIR_TOPIC_EVENTS: first.topic,
      WEIR_TOPIC_DEAD_LETTERS: first.deadLetterTopic,
    };
    faulty.target(stack.use(await startWeir({ env })).baseUrl);
  };
  const token = await new SignJWT({ scope: "events.write" })
    .setProtectedHeader({ alg: "HS256" })
    .setSubject("publisher")
    .setExpirationTime("1h")
    .sign(Buffer.from(secret));
  const publisher = createWeirClient({ baseUrl: faulty.baseUrl, token, timeoutMs: 5_000 }).publisher({
    bufferEvents: 1_000,
  });
  let [acknowledged, faults] = [0, 0];
  let replaced: Promise<void> | undefined;
  const harm = (): void => {
    acknowledged += 1;
    if (acknowledged === count / 2) replaced = replace();
    if (acknowledged % 300 !== 0) return;
    faults += 1;
    if (faults % 2 === 0) faulty.cut();
    else faulty.loseNextAnswer();
  };
  const receipts: Promise<void>[] = [];
  for (const number of numbers(count)) {
    await publisher.ready();
    receipts.push(publisher.publish(event(`faulty-${String(number % keys)}`, number)).then(harm));
  }
  await publisher.close();
  await Promise.all([...receipts, replaced]);

  expect(faults).toBe(20);
  const wanted = numbers(keys).map((key) => {
    const subject = `faulty-${String(key)}`;
    return [
      subject,
      numbers(count / keys).map((at) => `${run}:${subject}:${String(key + at * keys)}`),
    ] as const;
  });
  expect(await logged(first, "faulty-")).toEqual(Object.fromEntries(wanted));
}, 120_000);

test("memory has bounds while nothing is answered, and everything arrives afterwards", async () => {
  const [count, bufferBytes] = [20_000, 2_000_000];
  await using publisher = client.publisher({ bufferBytes });
  proxy.stall();
  let published = 0;
  let most = 0;
  const receipts: Promise<unknown>[] = [];
  const produced = (async () => {
    for (const number of numbers(count)) {
      await publisher.ready();
      receipts.push(publisher.publish(event(`stalled-${String(number % 10)}`, number, "x".repeat(500))));
      most = Math.max(most, publisher.buffered.bytes);
      published += 1;
    }
  })();
  await expect.poll(() => publisher.buffered.bytes, { timeout: 20_000 }).toBeGreaterThanOrEqual(bufferBytes);
  const before = published;
  await client.ingest.validateEvent({}, { timeoutMs: 300 }).catch(() => {});
  expect(published).toBe(before);
  proxy.resume();
  await produced;
  await Promise.all(receipts);
  expect(before).toBeLessThan(count / 2);
  expect(most).toBeLessThan(bufferBytes + 1_000);
}, 60_000);

test("each refusal with what the server found, and everything else goes through", async () => {
  const refused: PublishError[] = [];
  const unhandled: unknown[] = [];
  const note = (error: unknown): void => void unhandled.push(error);
  process.on("unhandledRejection", note);
  const publisher = client.publisher({ onRefused: (error) => refused.push(error) });
  const old = cloudEvent({ id: "old", source: "/publisher", type: "t", time: "2001-01-01T00:00:00Z" });
  const empty = cloudEvent({ id: "", source: "/publisher", type: "", time: new Date() });
  for (const each of [event("refused", 0), old, event("refused", 1), empty, event("refused", 2)]) {
    void publisher.publish(each);
  }
  await publisher.close();
  // Node looks for rejections that nobody handles once the microtasks are done.
  await new Promise(setImmediate);
  process.off("unhandledRejection", note);
  expect(unhandled).toEqual([]);
  expect(refused.map(({ reason, outcome }) => [outcome, reason])).toEqual([
    ["refused", "TIME_OUT_OF_WINDOW"],
    ["refused", "INVALID_ATTRIBUTES"],
  ]);
  expect(refused.map((error) => error.event)).toEqual([old, empty]);
  expect(refused[1]?.answer?.violations.map(({ field }) => field)).toEqual(
    expect.arrayContaining(["event.id", "event.type"]),
  );
  expect(await logged(weir, "refused")).toEqual({
    refused: numbers(3).map((number) => `${run}:refused:${String(number)}`),
  });
});

test("a rejection that nobody listens to is an unhandled one, as of any promise", async () => {
  const others = process.rawListeners("unhandledRejection") as NodeJS.UnhandledRejectionListener[];
  const { promise, resolve } = Promise.withResolvers<unknown>();
  process.removeAllListeners("unhandledRejection").once("unhandledRejection", resolve);
  const publisher = client.publisher();
  void publisher.publish(cloudEvent({ id: "", source: "/publisher", type: "t", time: new Date() }));
  await publisher.flush();
  expect(await promise).toBeInstanceOf(PublishError);
  for (const other of others) process.on("unhandledRejection", other);
});

test("a token without the scope refuses every event, at once", async () => {
  const token = await weir.token({ scope: "events.read" });
  const publisher = createWeirClient({ baseUrl: weir.baseUrl, token }).publisher();
  const results = await Promise.allSettled(
    numbers(300).map((number) => publisher.publish(event("alien", number))),
  );
  expect(
    new Set(results.map((result) => result.status === "rejected" && (result.reason as PublishError).reason)),
  ).toEqual(new Set(["SCOPE_MISSING"]));
});

test("a raised signal ends it at once, whatever is under way", async () => {
  const controller = new AbortController();
  const publisher = client.publisher({ signal: controller.signal, batchEvents: 10, lingerMs: 60_000 });
  proxy.stall();
  const settled = Promise.allSettled(numbers(15).map((number) => publisher.publish(event("ended", number))));
  controller.abort();
  const outcomes = (await settled).map(
    (each) => each.status === "rejected" && (each.reason as PublishError).outcome,
  );
  expect(outcomes).toEqual(numbers(15).map((number) => (number < 10 ? "unknown" : "refused")));
  await publisher.close();
  expect(publisher.buffered).toEqual({ events: 0, bytes: 0 });
  proxy.resume();
});
