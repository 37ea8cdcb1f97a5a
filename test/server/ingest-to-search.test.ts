import { create } from "@bufbuild/protobuf";
import { AnySchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { afterAll, beforeAll, expect, test } from "vitest";

import { type CloudEvent } from "#gen/io/cloudevents/v1/cloudevents_pb.ts";
import { type Event } from "#gen/weir/v1/event_pb.ts";

import { untilReady } from "../../dev/child.ts";
import { dataOf } from "../../sdk/cloud-event.ts";
import { startWeir, type Weir } from "../support/weir.ts";
import { type Clients, createClients, PROTOCOLS } from "./clients.ts";
import { sketch, toBinaryMode, toMessage, toStructured } from "./events.ts";

let weir: Weir;
let token: string;
let clients: Clients;
beforeAll(async () => {
  weir = await startWeir({ workers: true });
  token = await weir.token({ sub: "alice" });
  clients = createClients(weir.baseUrl, token);
});
afterAll(() => weir[Symbol.asyncDispose]());

/** The event of a name, as soon as it is stored. */
async function stored(name: string): Promise<Event> {
  let found: Event | undefined;
  const look = async (): Promise<boolean> => {
    try {
      found = (await clients.search.getEvent({ name })).event;
      return true;
    } catch (error) {
      if (ConnectError.from(error).code === Code.NotFound) return false;
      throw error;
    }
  };
  await untilReady(weir.server, look, { timeoutMs: 20_000 });
  return found!;
}

test.each(PROTOCOLS)("an event that was sent by %s is found as it was sent", async (protocol) => {
  const { ingest } = createClients(weir.baseUrl, token, protocol);
  const attributes = {
    source: `/%C3%BC/${protocol.replace(/\W/g, "")}`,
    subject: "ß",
    datacontenttype: "application/json",
  };
  const event = sketch({ ...attributes, ext: "a,b", severitytext: "ERROR2", tags: "x, y" }, '{"n": 1.00}');
  const { receipt } = await ingest.createEvent({ event: toMessage(event) });
  const found = await stored(receipt!.name);
  expect(found).toMatchObject({
    cloudEvent: toMessage(event),
    position: receipt?.position,
    receiveTime: receipt?.acceptTime,
    severityNumber: 18,
    tags: ["x", "y"],
    dataSize: 11n,
    timeText: event.attributes["time"],
    principal: "alice",
  });
});

test.each([
  ["structured", toStructured, '{"b":1, "a":123456789012345678901.0}'],
  ["binary", toBinaryMode, '{"b":1, "a":123456789012345678901.0}\n'],
] as const)("an event that was posted in %s mode is found byte for byte", async (_, toHttp, data) => {
  const event = sketch(
    { datacontenttype: "application/json", time: new Date().toISOString().replace("Z", "999+00:00") },
    data,
  );
  const { headers, body } = toHttp(event);
  const authorized = { ...headers, authorization: `Bearer ${token}` };
  const response = await fetch(`${weir.baseUrl}/v1/events`, { method: "POST", headers: authorized, body });
  const { receipt } = (await response.json()) as { receipt: { name: string } };
  const found = await stored(receipt.name);
  expect(new TextDecoder().decode(dataOf(found.cloudEvent))).toBe(data);
  expect(found.timeText).toBe(event.attributes["time"]);
});

test.each<[string, CloudEvent["data"]]>([
  ["that are no text", { case: "binaryData", value: new Uint8Array([0, 255, 1]) }],
  ["that are empty", { case: "textData", value: "" }],
  [
    "that are a protobuf message",
    { case: "protoData", value: create(AnySchema, { typeUrl: "a.test/B", value: new Uint8Array([8, 1]) }) },
  ],
  ["that are none", { case: undefined }],
])("data %s are found as they were sent", async (_, data) => {
  const { receipt } = await clients.ingest.createEvent({ event: { ...toMessage(sketch()), data } });
  expect((await stored(receipt!.name)).cloudEvent?.data).toEqual(data);
});

test("a repeat is stored once, and is the one that was accepted first", async () => {
  const event = toMessage(sketch());
  const [first, second] = [
    await clients.ingest.createEvent({ event }),
    await clients.ingest.createEvent({ event }),
  ];
  expect((await stored(first.receipt!.name)).position).toEqual(first.receipt?.position);
  // What stands behind it on its partition is stored after it.
  const marker = await clients.ingest.createEvent({ event: toMessage(sketch()) });
  await stored(marker.receipt!.name);
  const { events } = await clients.search.searchEvents({ pageSize: 500 });
  expect(events.filter(({ name }) => name === second.receipt?.name)).toHaveLength(1);
});
