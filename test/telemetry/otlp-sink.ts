import { createServer } from "node:http";
import { type AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { BinaryReader } from "@bufbuild/protobuf/wire";

/** A span as it came over OTLP. */
export interface ReceivedSpan {
  /** service.name of the process. */
  readonly service: string;
  readonly traceId: string;
  readonly spanId: string;
  /** "" for a root. */
  readonly parentSpanId: string;
  readonly traceState: string;
  readonly name: string;
  readonly kind: string;
  /** Nanoseconds since 1970. */
  readonly start: bigint;
  readonly end: bigint;
  readonly attributes: Readonly<Record<string, string | number>>;
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly isError: boolean;
}

/** An OTLP/HTTP collector that keeps what it gets. */
export interface OtlpSink extends AsyncDisposable {
  /** For WEIR_OTLP_ENDPOINT. */
  readonly url: string;
  readonly spans: readonly ReceivedSpan[];
  /** Answers no further request. Resolves when one has come. */
  fallSilent(): Promise<void>;
  /** Resolves with the spans once there are some for which it answers anything; a test's timeout is its bound. */
  until<T>(find: (spans: readonly ReceivedSpan[]) => T | undefined): Promise<T>;
}

/** Listens on a port of the system's choice. */
export async function startOtlpSink(): Promise<OtlpSink> {
  const spans: ReceivedSpan[] = [];
  let arrived = Promise.withResolvers<void>();
  let isSilent = false;
  const server = createServer((request, response) => {
    if (isSilent) return arrived.resolve();
    void buffer(request).then((body) => {
      const isOtlp =
        request.url === "/v1/traces" && request.headers["content-type"] === "application/x-protobuf";
      if (isOtlp) spans.push(...decodeTraces(body));
      response.writeHead(isOtlp ? 200 : 404, { "content-type": "application/x-protobuf" }).end();
      arrived.resolve();
      arrived = Promise.withResolvers();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    async fallSilent() {
      isSilent = true;
      arrived = Promise.withResolvers();
      await arrived.promise;
    },
    async until(find) {
      for (;;) {
        const found = find(spans);
        if (found !== undefined) return found;
        await arrived.promise;
      }
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

// opentelemetry-proto, trace/v1/trace.proto, as far as the tests look.

/** The fields of a message, by number. */
function fieldsOf(bytes: Uint8Array): Map<number, (Uint8Array | bigint)[]> {
  const fields = new Map<number, (Uint8Array | bigint)[]>();
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag();
    const values = fields.get(number) ?? [];
    fields.set(number, values);
    if (wireType === 2) values.push(reader.bytes());
    else if (wireType === 0) values.push(BigInt(reader.uint64()));
    else if (wireType === 1) values.push(BigInt(reader.fixed64()));
    else reader.skip(wireType, number);
  }
  return fields;
}

type Fields = ReturnType<typeof fieldsOf>;
const messages = (fields: Fields, number: number): Fields[] =>
  (fields.get(number) ?? []).map((value) => fieldsOf(value as Uint8Array));
const bytesAt = (fields: Fields, number: number): Buffer =>
  Buffer.from((fields.get(number)?.[0] as Uint8Array | undefined) ?? []);
const text = (fields: Fields, number: number): string => bytesAt(fields, number).toString("utf8");
const hex = (fields: Fields, number: number): string => bytesAt(fields, number).toString("hex");
const integer = (fields: Fields, number: number): bigint =>
  (fields.get(number)?.[0] as bigint | undefined) ?? 0n;

function decodeTraces(body: Uint8Array): ReceivedSpan[] {
  return messages(fieldsOf(body), 1).flatMap((resourceSpans) => {
    const [resource] = messages(resourceSpans, 1);
    const service = String(resource === undefined ? "" : attributesOf(resource, 1)["service.name"]);
    return messages(resourceSpans, 2)
      .flatMap((scopeSpans) => messages(scopeSpans, 2))
      .map((span) => toSpan(span, service));
  });
}

const KINDS = ["UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"];
const STATUS_ERROR = 2n;

function toSpan(span: Fields, service: string): ReceivedSpan {
  return {
    service,
    traceId: hex(span, 1),
    spanId: hex(span, 2),
    traceState: text(span, 3),
    parentSpanId: hex(span, 4),
    name: text(span, 5),
    kind: KINDS[Number(integer(span, 6))] ?? "",
    start: integer(span, 7),
    end: integer(span, 8),
    attributes: attributesOf(span, 9),
    links: messages(span, 13).map((link) => ({ traceId: hex(link, 1), spanId: hex(link, 2) })),
    isError: messages(span, 15).some((status) => integer(status, 3) === STATUS_ERROR),
  };
}

/** Strings and integers, which are all that we give. */
function attributesOf(fields: Fields, number: number): Record<string, string | number> {
  return Object.fromEntries(
    messages(fields, number).map((entry) => {
      const [value = new Map()] = messages(entry, 2);
      return [text(entry, 1), value.has(1) ? text(value, 1) : Number(integer(value, 3))];
    }),
  );
}
