import { create, fromBinary, toBinary, toJsonString } from "@bufbuild/protobuf";
import { Code, type ConnectRouter } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { CloudEventSchema } from "#gen/io/cloudevents/v1/cloudevents_pb.ts";
import {
  CreateEventRequestSchema,
  CreateEventResponseSchema,
  IngestService,
  ValidateEventResponseSchema,
} from "#gen/weir/v1/ingest_pb.ts";

import { failureOf, toConnectError } from "../../server/errors.ts";
import { createToken, type RpcServer, startRpcServer } from "../support/rpc-server.ts";

// What server/http/unary.ts answers itself, against what the RPC library answers to the same request: a content-encoding, even
// `identity`, makes a call the library's.

let server: RpcServer;
let token: string;
let poorToken: string;

beforeAll(async () => {
  server = await startRpcServer({ routes });
  [token, poorToken] = [await createToken("events.write"), await createToken("events.read")];
});
afterAll(() => server[Symbol.asyncDispose]());

/** Handlers that say what they were called with, and fail as the event's id asks. */
function routes(router: ConnectRouter): void {
  router.service(IngestService, {
    async createEvent({ event }, { requestHeader, requestMethod, url, protocolName, signal }) {
      switch (event?.id ?? "") {
        case "refused":
          throw toConnectError({
            ...failureOf([{ field: "time", reason: "TIME_OUT_OF_WINDOW", description: "is too old" }]),
            retryAfterMs: 2_000,
          });
        case "broken":
          throw new Error("a fault of ours");
        case "slow":
          await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
          throw toConnectError({ code: Code.Unavailable, reason: "PUBLISH_OUTCOME_UNKNOWN", message: "?" });
        case "stuck":
          return await new Promise(() => {});
        default:
      }
      const told = [requestMethod, new URL(url).pathname, protocolName, requestHeader.get("x-told")];
      return { receipt: { name: told.join(" "), partitionKey: "x".repeat(Number(event?.type || "0")) } };
    },
    validateEvent: () => create(ValidateEventResponseSchema, { valid: true }),
  });
}

const PATH = "/weir.v1.IngestService/CreateEvent";

function request(id: string, type = ""): Uint8Array<ArrayBuffer> {
  const event = create(CloudEventSchema, { id, type });
  return Buffer.from(toBinary(CreateEventRequestSchema, create(CreateEventRequestSchema, { event })));
}

function jsonRequest(id: string): Uint8Array<ArrayBuffer> {
  const message = create(CreateEventRequestSchema, { event: create(CloudEventSchema, { id }) });
  return Buffer.from(toJsonString(CreateEventRequestSchema, message));
}

interface Call {
  readonly body?: Uint8Array<ArrayBuffer> | string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly path?: string;
}

interface Told {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

async function post(
  { body = request("good"), headers, path = PATH }: Call,
  byLibrary: boolean,
): Promise<Told> {
  const response = await fetch(server.url + path, {
    method: "POST",
    headers: {
      "content-type": "application/proto",
      authorization: `Bearer ${token}`,
      "x-told": "this",
      ...(byLibrary && { "content-encoding": "identity" }),
      ...headers,
    },
    body,
  });
  const { date: _, ...others } = Object.fromEntries(response.headers);
  // An error of ours has an id of its own each time, in the message and in the encoded detail.
  const text = Buffer.from(await response.arrayBuffer())
    .toString("latin1")
    .replaceAll(/[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}/g, "<id>")
    .replaceAll(/"value":"[^"]*"/g, (value) => (value.length > 80 ? '"value":"…"' : value));
  return { status: response.status, headers: others, body: text };
}

const JSON_TYPE = { "content-type": "application/json" };

describe("a plain unary call is answered as the RPC library answers it:", () => {
  it.each<[string, Call, status: number]>([
    ["a message", {}, 200],
    ["a message in JSON", { body: jsonRequest("good"), headers: JSON_TYPE }, 200],
    [
      "JSON with a charset",
      { body: jsonRequest("good"), headers: { "content-type": "application/json; charset=UTF-8" } },
      200,
    ],
    ["JSON with an unknown field", { body: '{"event":{"id":"a"},"more":1}', headers: JSON_TYPE }, 400],
    [
      "JSON that is not UTF-8",
      { body: Buffer.from('{"event":{"id":"\xe9"}}', "latin1"), headers: JSON_TYPE },
      400,
    ],
    ["an empty message", { body: "" }, 200],
    ["an answer that is a message", { path: "/weir.v1.IngestService/ValidateEvent" }, 200],
    ["a query", { path: `${PATH}?a=b` }, 200],
    ["a refusal", { body: request("refused") }, 400],
    ["a refusal in JSON", { body: jsonRequest("refused"), headers: JSON_TYPE }, 400],
    ["a fault of ours", { body: request("broken") }, 500],
    ["no token", { headers: { authorization: "" } }, 401],
    ["a token without the scope", { headers: { authorization: "poor" } }, 403],
    ["bytes that are no message", { body: "\xff\xff\xff" }, 400],
    ["text that is no JSON", { body: "{", headers: JSON_TYPE }, 400],
    ["JSON of another shape", { body: '{"event":7}', headers: JSON_TYPE }, 400],
    ["a method that nobody serves", { path: "/weir.v1.IngestService/BatchCreateEvents" }, 501],
    [
      "a deadline that the handler heeds",
      { body: request("slow"), headers: { "connect-timeout-ms": "80" } },
      503,
    ],
    ["a deadline that it does not", { body: request("stuck"), headers: { "connect-timeout-ms": "80" } }, 504],
    ["a deadline of 0", { headers: { "connect-timeout-ms": "0" } }, 504],
    ["a deadline beyond the longest", { headers: { "connect-timeout-ms": "9999999999" } }, 200],
    ["a deadline that is none", { headers: { "connect-timeout-ms": "soon" } }, 400],
    ["another media type", { headers: { "content-type": "text/plain" } }, 415],
  ])("%s", async (_, call, status) => {
    const authorization =
      call.headers?.["authorization"] === "poor" ? { authorization: `Bearer ${poorToken}` } : undefined;
    const mine = { ...call, headers: { ...call.headers, ...authorization } };
    const [own, theirs] = [await post(mine, false), await post(mine, true)];
    expect(own).toEqual(theirs);
    expect(own.status).toBe(status);
  });

  it("compressed from 1 KiB on, where the client takes that", async () => {
    for (const [type, encoding] of [
      ["10", null],
      ["2000", "gzip"],
    ] as const) {
      for (const byLibrary of [false, true]) {
        const told = await post(
          { body: request("good", type), headers: { "accept-encoding": "gzip" } },
          byLibrary,
        );
        // fetch inflates, and leaves the header.
        expect(told.headers["content-encoding"] ?? null).toBe(encoding);
        const { receipt } = fromBinary(CreateEventResponseSchema, Buffer.from(told.body, "latin1"));
        expect(receipt?.partitionKey).toHaveLength(Number(type));
      }
    }
  });

  it("with what the handler may ask of the request", async () => {
    const { body } = await post({}, false);
    const { receipt } = fromBinary(CreateEventResponseSchema, Buffer.from(body, "latin1"));
    expect(receipt?.name).toBe(`POST ${PATH} connect this`);
  });
});
