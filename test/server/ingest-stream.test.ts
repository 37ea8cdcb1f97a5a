import * as http2 from "node:http2";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { toBinary, create } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import {
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
} from "@connectrpc/connect-node";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";

import {
  IngestService,
  StreamEventsRequestSchema,
  type StreamEventsResponse,
} from "#gen/weir/v1/ingest_pb.ts";

import { startFaultProxy } from "../sdk/fault-proxy.ts";
import { readTopic } from "../support/topic.ts";
import { startWeir, type Weir, type WeirOptions } from "../support/weir.ts";
import { createClients, refusalOf, statusRefusalOf } from "./clients.ts";
import { openStream, type EventStream } from "./event-stream.ts";
import { sketch, toMessage } from "./events.ts";

const WINDOW = 256;

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

const PROTOCOLS = {
  Connect: (baseUrl: string, interceptors: Interceptor[]) =>
    createConnectTransport({ baseUrl, httpVersion: "2", interceptors }),
  gRPC: (baseUrl: string, interceptors: Interceptor[]) => createGrpcTransport({ baseUrl, interceptors }),
  "gRPC-Web": (baseUrl: string, interceptors: Interceptor[]) =>
    createGrpcWebTransport({ baseUrl, httpVersion: "2", interceptors }),
};

async function open(
  weir: Pick<Weir, "baseUrl" | "token">,
  protocol: keyof typeof PROTOCOLS = "gRPC",
): Promise<EventStream> {
  const token = await weir.token({ scope: "events.write" });
  const bearer: Interceptor = (next) => (request) => {
    request.header.set("authorization", `Bearer ${token}`);
    return next(request);
  };
  const stream = openStream(createClient(IngestService, PROTOCOLS[protocol](weir.baseUrl, [bearer])));
  stack.defer(() => stream.abort());
  return stream;
}

async function start(options?: WeirOptions): Promise<Weir> {
  return stack.use(await startWeir(options));
}

/** The ids on the log of the events whose partition key begins so, in the order of each partition. */
async function idsOnLog(weir: Weir, key = ""): Promise<string[]> {
  const records = await readTopic(weir.brokers, weir.topic);
  return records
    .filter((record) => String(record.key).startsWith(key))
    .map(({ headers }) => headers.find(([name]) => name === "ce_id")?.[1]?.toString() ?? "");
}

function sequences(answers: readonly StreamEventsResponse[]): number[] {
  return answers.map(({ sequence }) => Number(sequence)).toSorted((a, b) => a - b);
}

/** Sends events as its credit allows and reads all answers. */
async function sendAll(
  stream: EventStream,
  ids: readonly string[],
  source: string,
): Promise<StreamEventsResponse[]> {
  const answers: StreamEventsResponse[] = [];
  let sent = 0;
  while (answers.length < ids.length) {
    const message = await stream.next();
    if (message === undefined) throw new Error("The stream ended.");
    if (message.sequence > 0n) answers.push(message);
    for (; stream.credit > 0 && sent < ids.length; sent += 1) {
      stream.send({ sequence: BigInt(sent + 1), event: toMessage(sketch({ id: ids[sent]!, source })) });
    }
    if (sent === ids.length) stream.end();
  }
  expect(await stream.next()).toBeUndefined();
  return answers;
}

describe("a stream", () => {
  let weir: Weir;
  beforeAll(async () => {
    weir = await startWeir();
  });
  afterAll(() => weir[Symbol.asyncDispose]());

  test.each(Object.keys(PROTOCOLS) as (keyof typeof PROTOCOLS)[])(
    "opens with credit, answers every event with its number, and ends with OK after the last, by %s",
    async (protocol) => {
      const stream = await open(weir, protocol);
      const ids = Array.from({ length: 1_000 }, (_, index) => `${protocol}-${index}`);
      const answers = await sendAll(stream, ids, `/stream/${protocol}`);
      expect(sequences(answers)).toEqual(ids.map((_, index) => index + 1));
      for (const { sequence, outcome, credit } of answers) {
        expect(credit).toBe(1);
        expect(outcome.case).toBe("receipt");
        if (outcome.case !== "receipt") continue;
        expect(outcome.value.name).toContain(`:${ids[Number(sequence) - 1]}`);
        expect(outcome.value.partitionKey).toBe(`/stream/${protocol}`);
      }
      // One key: the order of the log is the order of sending.
      expect(await idsOnLog(weir, `/stream/${protocol}`)).toEqual(ids);
    },
  );

  test("gives the credit of its window at once, before anything is sent", async () => {
    const stream = await open(weir);
    expect(await stream.next()).toMatchObject({ sequence: 0n, outcome: { case: undefined }, credit: WINDOW });
  });

  test("answers an event that is refused as CreateEvent does, and goes on", async () => {
    const stream = await open(weir);
    const { ingest } = createClients(weir.baseUrl, await weir.token());
    const bad = toMessage(sketch({ id: "", source: "a b" }));
    stream.send({ sequence: 5n, event: bad });
    stream.send({ sequence: 9n, event: toMessage(sketch({ id: "good", source: "/refusing" })) });
    stream.send({ sequence: 10n });
    stream.end();
    const answers = await stream.answers(3);
    expect(await stream.next()).toBeUndefined();
    const at = (sequence: bigint): StreamEventsResponse["outcome"] | undefined =>
      answers.find((answer) => answer.sequence === sequence)?.outcome;
    const [refused, missing] = [at(5n), at(10n)];
    if (refused?.case !== "error" || missing?.case !== "error") throw new Error("They were taken.");
    expect(statusRefusalOf(refused.value)).toEqual(await refusalOf(ingest.createEvent({ event: bad })));
    expect(statusRefusalOf(missing.value)).toEqual(await refusalOf(ingest.createEvent({})));
    expect(at(9n)?.case).toBe("receipt");
    expect(await idsOnLog(weir, "/refusing")).toEqual(["good"]);
  });

  test.each([[["0"]], [["-1"]], [["1", "1"]], [["7", "3"]]])(
    "is ended by sequences that do not grow: %j, after the answers to those before",
    async (given) => {
      const stream = await open(weir);
      const source = `/sequences/${given.join("-")}`;
      for (const text of given) {
        stream.send({ sequence: BigInt(text), event: toMessage(sketch({ source })) });
      }
      await stream.answers(given.length - 1);
      const refusal = await refusalOf(stream.answers(1));
      expect(refusal).toMatchObject({ code: Code.InvalidArgument, reason: "INVALID_SEQUENCE" });
      expect(refusal.metadata["sequence"]).toBe(given.at(-1));
      expect(await idsOnLog(weir, source)).toHaveLength(given.length - 1);
    },
  );

  test("is ended by an event without credit, after the answers to those before", async () => {
    const stream = await open(weir);
    for (let index = 1; index <= 2_000; index += 1) {
      const event = toMessage(sketch({ id: `${index}`, source: "/beyond" }));
      stream.send({ sequence: BigInt(index), event });
    }
    const answers: StreamEventsResponse[] = [];
    const reading = async (): Promise<never> => {
      for (;;) answers.push(...(await stream.answers(1)));
    };
    const refusal = await refusalOf(reading());
    expect(refusal).toMatchObject({ code: Code.ResourceExhausted, reason: "CREDIT_EXCEEDED" });
    expect(refusal.metadata).toEqual({ sequence: String(answers.length + 1), window: String(WINDOW) });
    expect(sequences(answers)).toEqual(answers.map((_, index) => index + 1));
    expect(await idsOnLog(weir, "/beyond")).toEqual(answers.map((_, index) => `${index + 1}`));
  });

  test("needs HTTP/2", async () => {
    const response = await fetch(`${weir.baseUrl}/${IngestService.typeName}/StreamEvents`, {
      method: "POST",
      headers: { "content-type": "application/connect+proto", authorization: `Bearer ${await weir.token()}` },
      body: new Uint8Array(5),
    });
    expect(response.status).toBe(505);
    expect(await response.json()).toMatchObject({ message: expect.stringContaining("HTTP/2") as string });
  });

  test("needs the scope events.write", async () => {
    const token = await weir.token({ scope: "events.read" });
    const { ingest } = createClients(weir.baseUrl, token, "gRPC");
    const stream = openStream(ingest);
    expect(await refusalOf(stream.next())).toMatchObject({
      code: Code.PermissionDenied,
      reason: "SCOPE_MISSING",
    });
  });

  test("that breaks loses no event whose receipt was read", async () => {
    const stream = await open(weir);
    await stream.next();
    const ids = Array.from({ length: WINDOW }, (_, index) => `broken-${index}`);
    ids.forEach((id, index) =>
      stream.send({
        sequence: BigInt(index + 1),
        event: toMessage(sketch({ id, source: `/broken/${index % 5}` })),
      }),
    );
    const answers = await stream.answers(20);
    stream.abort();
    const acknowledged = answers.map(({ sequence }) => ids[Number(sequence) - 1]);
    // The log is read once nothing more comes onto it.
    await expect.poll(async () => (await measure(weir)).queued).toBe(0);
    const onLog = new Set(await idsOnLog(weir, "/broken"));
    expect(acknowledged.filter((id) => !onLog.has(id!))).toEqual([]);

    // What has no answer is sent again, over another stream.
    const again = await open(weir);
    const rest = ids.filter((id) => !acknowledged.includes(id));
    await sendAll(again, rest, "/broken/again");
    expect(new Set(await idsOnLog(weir, "/broken"))).toEqual(new Set(ids));
  });
});

test("a client that vanishes while it is answered is no fault of the server", async () => {
  const weir = await start();
  const proxy = stack.use(await startFaultProxy(weir.baseUrl));
  for (let round = 0; round < 10; round += 1) {
    const stream = await open({ ...weir, baseUrl: proxy.baseUrl });
    await stream.next();
    for (let number = 1; number <= WINDOW; number += 1) {
      const event = toMessage(
        sketch({ id: `vanished-${round}-${number}`, source: `/vanished/${number % 9}` }),
      );
      stream.send({ sequence: BigInt(number), event });
    }
    await stream.answers(1 + round);
    proxy.cut();
    await expect(stream.answers(WINDOW)).rejects.toBeInstanceOf(ConnectError);
  }
  await expect.poll(async () => (await measure(weir)).queued).toBe(0);
  expect(weir.log().filter(({ level }) => level === "error")).toEqual([]);
}, 60_000);

test("a full queue is waited for: no event of a stream is refused for it, and the order stays", async () => {
  const weir = await start({ env: { WEIR_PRODUCER_QUEUE: "5" } });
  const [one, other] = [await open(weir), await open(weir)];
  const idsOf = (name: string): string[] => Array.from({ length: 600 }, (_, index) => `${name}-${index}`);
  const answers = await Promise.all([
    sendAll(one, idsOf("one"), "/one"),
    sendAll(other, idsOf("other"), "/other"),
  ]);
  expect(answers.flat().filter(({ outcome }) => outcome.case !== "receipt")).toEqual([]);
  const log = await idsOnLog(weir);
  for (const name of ["one", "other"]) {
    expect(log.filter((id) => id.startsWith(`${name}-`))).toEqual(idsOf(name));
  }
});

test("a server that stops answers what it has and ends the stream, which says so", async () => {
  // The end of the drain would end the stream as well, but later than this test may take.
  const weir = await start({ env: { WEIR_DRAIN_TIMEOUT: "60s", WEIR_STOP_TIMEOUT: "70s" } });
  const stream = await open(weir);
  await stream.next();
  const ids = Array.from({ length: 200 }, (_, index) => `stop-${index}`);
  ids.forEach((id, index) => stream.send({ sequence: BigInt(index + 1), event: toMessage(sketch({ id })) }));
  const answers = await stream.answers(1);
  process.kill(weir.server.pid, "SIGTERM");
  const rest = async (): Promise<never> => {
    for (;;) answers.push(...(await stream.answers(1)));
  };
  const refusal = await refusalOf(rest());
  expect(refusal).toMatchObject({ code: Code.Unavailable, reason: "SHUTTING_DOWN", retryAfterMs: 1_000 });
  // Whatever came onto the log has its answer.
  expect((await idsOnLog(weir)).toSorted()).toEqual(
    answers.map(({ sequence }) => ids[Number(sequence) - 1]!).toSorted(),
  );
});

test("a client that sends and never reads costs no more than its window", async () => {
  const weir = await start();
  const token = await weir.token();
  const session = http2.connect(weir.baseUrl, { settings: { initialWindowSize: 0 } });
  stack.defer(() => session.destroy());
  await once(session, "remoteSettings");
  const call = session.request({
    ":method": "POST",
    ":path": `/${IngestService.typeName}/StreamEvents`,
    "content-type": "application/grpc+proto",
    te: "trailers",
    authorization: `Bearer ${token}`,
  });
  const frame = (sequence: number): Buffer => {
    const event = toMessage(sketch({ id: `${sequence}` }, "x".repeat(10_000)));
    const message = create(StreamEventsRequestSchema, { sequence: BigInt(sequence), event });
    const bytes = toBinary(StreamEventsRequestSchema, message);
    const head = Buffer.alloc(5);
    head.writeUInt32BE(bytes.length, 1);
    return Buffer.concat([head, bytes]);
  };
  const before = await measure(weir);
  const pump = async (): Promise<void> => {
    for (let sequence = 1; sequence <= 6_000; sequence += 1) {
      if (!call.write(frame(sequence))) await once(call, "drain");
    }
  };
  void pump().catch(() => undefined);
  let quiet = 0;
  let seen = before;
  while (quiet < 10) {
    await sleep(100);
    const now = await measure(weir);
    quiet = now.accepted > 0 && now.accepted === seen.accepted ? quiet + 1 : 0;
    seen = now;
  }
  // Beside the window: the answers, of some 150 bytes, that fit the buffers of the connection.
  expect(seen.accepted).toBeGreaterThanOrEqual(WINDOW);
  expect(seen.accepted).toBeLessThan(WINDOW + 2_000);
  expect(seen.memory - before.memory).toBeLessThan(100 * 1024 * 1024);
  expect(call.readableLength).toBe(0);
}, 60_000);

/** Events that were taken by RPC so far, records that wait for the broker, and the bytes that the server uses. */
async function measure(weir: Weir): Promise<{ accepted: number; queued: number; memory: number }> {
  const page = await (await fetch(`${weir.baseUrl}/metrics`)).text();
  const read = (line: string): number => Number(new RegExp(`^${line} (\\S+)$`, "m").exec(page)?.[1] ?? 0);
  return {
    accepted: read('weir_ingest_events_total\\{protocol="rpc",outcome="accepted"\\}'),
    queued: read("weir_producer_queue_records"),
    memory: read("process_memory_usage"),
  };
}
