import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { requestPath } from "../../server/wire.ts";
import { type Status, StatusSchema } from "#gen/google/rpc/status_pb.ts";
import { Stage } from "#gen/weir/v1/event_pb.ts";

import { DETAIL_TYPES } from "../../server/errors.ts";
import {
  type Clients,
  createClients,
  httpRefusalOf,
  PROTOCOLS,
  refusalOf,
  statusRefusalOf,
} from "./clients.ts";
import { startWeir, type Weir } from "../support/weir.ts";
import { readTopic } from "../support/topic.ts";
import {
  sketch,
  type Sketch,
  toBinaryMode,
  toJsonBatch,
  toMessage,
  toProtobufBatch,
  toStructured,
  toStructuredProtobuf,
} from "./events.ts";

let weir: Weir;
let token: string;
beforeAll(async () => {
  weir = await startWeir();
  token = await weir.token();
});
afterAll(() => weir[Symbol.asyncDispose]());

const DAY = 86_400_000;
const at = (milliseconds: number): string => new Date(Date.now() + milliseconds).toISOString();

/** What is wrong with an event, by attribute, and so what every edge must say. */
interface Case {
  readonly name: string;
  readonly event: () => Sketch;
  readonly code: Code;
  /** `attribute REASON` of every fault. */
  readonly faults: readonly string[];
}

const invalid = (
  name: string,
  attributes: Record<string, string | undefined>,
  ...faults: string[]
): Case => ({
  name,
  event: () => sketch(attributes),
  code: Code.InvalidArgument,
  faults: faults.map((fault) => (fault.includes(" ") ? fault : `${fault} INVALID_ATTRIBUTES`)),
});

const CASES: readonly Case[] = [
  invalid("no id", { id: undefined }, "id"),
  invalid("an empty id", { id: "" }, "id"),
  invalid("no source", { source: undefined }, "source"),
  invalid("a source that is no URI-reference", { source: "a b" }, "source"),
  invalid("no type", { type: undefined }, "type"),
  invalid("another specversion", { specversion: "0.3" }, "specversion"),
  invalid("no time", { time: undefined }, "time"),
  invalid("a time without an offset", { time: "2026-11-01T09:30:00" }, "time"),
  invalid("a leap second", { time: "2016-12-31T23:59:60Z" }, "time"),
  invalid("an empty subject", { subject: "" }, "subject"),
  invalid("a datacontenttype that is no media type", { datacontenttype: "json" }, "datacontenttype"),
  invalid("a dataschema without a scheme", { dataschema: "/schema" }, "dataschema"),
  invalid("a name with a dash", { "a-b": "1" }, "a-b"),
  invalid("a name with an underscore", { a_b: "1" }, "a_b"),
  invalid("an attribute that is called data", { data: "1" }, "data"),
  invalid("a long id", { id: "i".repeat(513) }, "id TOO_LARGE"),
  invalid("a long source", { source: `/${"s".repeat(1_024)}` }, "source TOO_LARGE"),
  invalid("a long subject", { subject: "ü".repeat(513) }, "subject TOO_LARGE"),
  invalid("a long type", { type: "t".repeat(257) }, "type TOO_LARGE"),
  invalid("a long name", { ["n".repeat(41)]: "1" }, `${"n".repeat(41)} TOO_LARGE`),
  invalid("a long value", { ext: "v".repeat(4_097) }, "ext TOO_LARGE"),
  invalid(
    "65 extensions",
    Object.fromEntries(Array.from({ length: 65 }, (_, index) => [`x${index}`, "1"])),
    " TOO_LARGE",
  ),
  {
    name: "more than 1 MiB",
    event: () => sketch({ datacontenttype: "application/json" }, `"${"d".repeat(1_048_576)}"`),
    code: Code.InvalidArgument,
    faults: [" TOO_LARGE"],
  },
  {
    name: "a time more than 24 h ahead",
    event: () => sketch({ time: at(DAY + 60_000) }),
    code: Code.OutOfRange,
    faults: ["time TIME_OUT_OF_WINDOW"],
  },
  {
    name: "a time more than 90 d behind",
    event: () => sketch({ time: at(-90 * DAY - 60_000) }),
    code: Code.OutOfRange,
    faults: ["time TIME_OUT_OF_WINDOW"],
  },
  {
    name: "everything at once",
    event: () =>
      sketch({
        id: undefined,
        source: "a b",
        type: "t".repeat(257),
        time: at(2 * DAY),
        dataschema: "/schema",
        "a-b": "1",
        ext: "v".repeat(4_097),
      }),
    code: Code.InvalidArgument,
    faults: [
      "id INVALID_ATTRIBUTES",
      "source INVALID_ATTRIBUTES",
      "type TOO_LARGE",
      "time TIME_OUT_OF_WINDOW",
      "dataschema INVALID_ATTRIBUTES",
      "a-b INVALID_ATTRIBUTES",
      "ext TOO_LARGE",
    ],
  },
];

/** The faults with the paths of an edge, in the order of comparison. */
function placed(faults: readonly string[], path: (attribute: string) => string): string[] {
  return faults.map((fault) => fault.replace(/^\S*/, path)).toSorted();
}

function told(violations: readonly { readonly field: string; readonly reason: string }[]): string[] {
  return violations.map(({ field, reason }) => `${field} ${reason}`).toSorted();
}

function headerOf(attribute: string): string {
  if (attribute === "") return "";
  return attribute === "datacontenttype" ? "content-type" : `ce-${attribute}`;
}

/** An attribute that is called data is the payload in the other formats, so only a message can have it. */
const HTTP_CASES = CASES.filter(({ faults }) => !faults.includes("data INVALID_ATTRIBUTES"));

describe.each(PROTOCOLS)("CreateEvent by %s refuses", (protocol) => {
  let clients: Clients;
  beforeAll(() => {
    clients = createClients(weir.baseUrl, token, protocol);
  });

  test.each(CASES)("$name", async ({ event, code, faults }) => {
    const refusal = await refusalOf(clients.ingest.createEvent({ event: toMessage(event()) }));
    expect(told(refusal.violations)).toEqual(placed(faults, requestPath));
    expect(refusal.code).toBe(code);
    expect(refusal.reason).toBe(gravest(faults));
    expect(refusal.retryAfterMs).toBeUndefined();
    expect(refusal.message).not.toBe("");
  });

  test("each of them in a batch, at its index", async () => {
    const events = CASES.map(({ event }) => toMessage(event()));
    const { results } = await clients.ingest.batchCreateEvents({ events });
    expectRefused(
      CASES,
      results.map(({ outcome }) => (outcome.case === "error" ? outcome.value : undefined)),
      requestPath,
    );
  });

  test("a request without an event", async () => {
    const refusal = await refusalOf(clients.ingest.createEvent({}));
    expect(refusal).toMatchObject({ code: Code.InvalidArgument, reason: "INVALID_REQUEST" });
    expect(told(refusal.violations)).toEqual(["event INVALID_REQUEST"]);
  });

  test("the limit, what there was and the unit of what is too large", async () => {
    const refusal = await refusalOf(
      clients.ingest.createEvent({ event: toMessage(sketch({ id: "i".repeat(600) })) }),
    );
    expect(refusal.metadata).toEqual({ limit: "512", actual: "600", unit: "bytes" });
  });

  test("a stage that is not served", async () => {
    const refusal = await refusalOf(
      clients.ingest.createEvent({ event: toMessage(sketch()), waitFor: Stage.FANNED_OUT }),
    );
    expect(refusal).toMatchObject({ code: Code.Unimplemented, reason: "STAGE_UNSUPPORTED" });
    expect(refusal.message).toContain("STAGE_FANNED_OUT");
    expect(told(refusal.violations)).toEqual(["wait_for STAGE_UNSUPPORTED"]);
  });

  test("a stage that is not served together with the event's faults, which decide the code", async () => {
    const event = toMessage(sketch({ id: "", time: "2019-01-01T00:00:00Z" }));
    const refusal = await refusalOf(clients.ingest.createEvent({ event, waitFor: 3 }));
    expect(refusal).toMatchObject({ code: Code.InvalidArgument, reason: "INVALID_ATTRIBUTES" });
    expect(told(refusal.violations)).toEqual([
      "event.attributes.time TIME_OUT_OF_WINDOW",
      "event.id INVALID_ATTRIBUTES",
      "wait_for STAGE_UNSUPPORTED",
    ]);
    const old = toMessage(sketch({ time: "2019-01-01T00:00:00Z" }));
    expect(await refusalOf(clients.ingest.createEvent({ event: old, waitFor: 3 }))).toMatchObject({
      code: Code.OutOfRange,
      reason: "TIME_OUT_OF_WINDOW",
    });
  });
});

describe("ValidateEvent finds the same", () => {
  test.each(CASES)("$name", async ({ event, faults }) => {
    const { ingest } = createClients(weir.baseUrl, token);
    const { valid, violations } = await ingest.validateEvent({ event: toMessage(event()) });
    expect(valid).toBe(false);
    expect(told(violations)).toEqual(placed(faults, requestPath));
  });

  test("and nothing in a sound event", async () => {
    const { ingest } = createClients(weir.baseUrl, token);
    expect(await ingest.validateEvent({ event: toMessage(sketch()) })).toMatchObject({
      valid: true,
      violations: [],
    });
  });
});

/** What CASES, sent at once, were refused with. */
function expectRefused(
  cases: readonly Case[],
  errors: readonly (Status | undefined)[],
  path: (attribute: string) => string,
): void {
  expect(errors).toHaveLength(cases.length);
  for (const [index, { name, code, faults }] of cases.entries()) {
    const error = errors[index];
    if (error === undefined) throw new Error(`${name} was taken.`);
    const refusal = statusRefusalOf(error);
    expect([name, ...told(refusal.violations)]).toEqual([name, ...placed(faults, path)]);
    expect([refusal.code, refusal.reason]).toEqual([code, gravest(faults)]);
    expect(refusal.message).not.toBe("");
  }
}

function messagePath(attribute: string): string {
  return attribute === "" ? "" : requestPath(attribute).replace(/^event\./, "");
}

describe.each([
  ["JSON", toJsonBatch, (attribute: string) => attribute, true],
  ["protobuf", toProtobufBatch, messagePath, false],
] as const)("POST /v1/events:batchCreate in %s refuses", (_, toHttp, path, isJson) => {
  test("each of them at its index", async () => {
    const cases = isJson ? HTTP_CASES : CASES;
    const { headers, body } = toHttp(cases.map(({ event }) => event()));
    const response = await fetch(`${weir.baseUrl}/v1/events:batchCreate`, {
      method: "POST",
      headers: { ...headers, authorization: `Bearer ${token}` },
      body,
    });
    expect(response.status).toBe(400);
    const answer = (await response.json()) as { code: string; results: { error?: JsonValue }[] };
    expect(answer.code).toBe("invalid_argument");
    const errors = answer.results.map(({ error }) =>
      error === undefined ? undefined : fromJson(StatusSchema, error, { registry: DETAIL_TYPES }),
    );
    expectRefused(cases, errors, path);
  });
});

describe.each([
  ["structured mode as JSON", toStructured, (attribute: string) => attribute],
  ["structured mode as protobuf", toStructuredProtobuf, messagePath],
  ["binary mode", toBinaryMode, headerOf],
] as const)("POST /v1/events in %s refuses", (_, toHttp, path) => {
  const post = (route: string, event: Sketch): Promise<Response> => {
    const { headers, body } = toHttp(event);
    const authorized = { ...headers, authorization: `Bearer ${token}` };
    return fetch(`${weir.baseUrl}${route}`, { method: "POST", headers: authorized, body });
  };

  test.each(HTTP_CASES)("$name", async ({ event, code, faults }) => {
    const refusal = await httpRefusalOf(await post("/v1/events", event()));
    expect(told(refusal.violations)).toEqual(placed(faults, path));
    expect(refusal.code).toBe(code);
    expect(refusal.reason).toBe(gravest(faults));
    expect(refusal.status).toBe(gravest(faults) === "TOO_LARGE" ? 413 : 400);
  });

  test.each(HTTP_CASES)("$name, and :validate finds the same", async ({ event, faults }) => {
    const response = await post("/v1/events:validate", event());
    expect(response.status).toBe(200);
    const { valid, violations } = (await response.json()) as {
      valid?: boolean;
      violations: { field?: string; reason: string }[];
    };
    expect(valid).not.toBe(true);
    expect(told(violations.map(({ field = "", reason }) => ({ field, reason })))).toEqual(
      placed(faults, path),
    );
  });
});

test("nothing that was refused is on the log", async () => {
  const { ingest } = createClients(weir.baseUrl, token);
  const { receipt } = await ingest.createEvent({ event: toMessage(sketch({ id: "the-only-one" })) });
  const records = await readTopic(weir.brokers, weir.topic);
  expect(records.map(({ partition, offset }) => [partition, offset])).toEqual([
    [receipt?.position?.partition, receipt?.position?.offset],
  ]);
});

/** The reason that stands for all: attributes that are wrong weigh more than sizes, sizes more than the time. */
function gravest(faults: readonly string[]): string {
  const order = ["INVALID_ATTRIBUTES", "TOO_LARGE", "TIME_OUT_OF_WINDOW"];
  return order.find((reason) => faults.some((fault) => fault.endsWith(reason))) ?? "";
}
