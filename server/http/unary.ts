import { create, type DescMethodUnary, type DescService, isMessage, type Message } from "@bufbuild/protobuf";
import {
  createContextValues,
  createServiceImplSpec,
  type HandlerContext,
  type MethodImplSpec,
  type ServiceImpl,
} from "@connectrpc/connect";
import { compressionNegotiate, createMethodSerializationLookup } from "@connectrpc/connect/protocol";
import { codeToHttpStatus, contentTypeUnaryRegExp } from "@connectrpc/connect/protocol-connect";
import { compressionBrotli, compressionGzip } from "@connectrpc/connect-node";
import { type Authorize, principalKey } from "../auth/auth.ts";
import { type BodyBudget } from "./body-budget.ts";
import { type WithDeadline } from "./call-deadlines.ts";
import { asInputFault } from "../error-funnel.ts";
import { httpAnswerOf, JSON_OPTIONS, toConnectError } from "../errors.ts";
import { type HttpAnswer, writeAnswer } from "./http-answer.ts";
import { type ServerRequest, type ServerResponse } from "./listener.ts";
import { demandUtf8 } from "./message-bound.ts";
import { passOn } from "./rpc-adapter.ts";
import { readBody } from "./request-body.ts";
import { type RequestSpan } from "./request-span.ts";
import { type MeasureOptions, measureCall, methodName } from "./rpc-call.ts";
import { type Scope } from "../auth/scopes.ts";

// A plain unary call of the Connect protocol is a POST that is answered with a message, or with an error in JSON, as an HTTP
// route is. The RPC library serves it by Headers, URLs, async iterators, and abort signals that are all raised at its end.
// Measured for a CreateEvent whose log acknowledges at once, medians of 5 rounds in turn on a busy machine: 375 µs of CPU by
// the library and 140 here; a bare echo by the library takes 161. Whatever is not plain, and every other protocol, stays
// the library's, which answers the same (test/server/unary.test.ts).

/** Larger ones are the library's, with the bound of their parts (message-bound.ts). */
const MOST_BYTES = 256 * 1024;
/** From what size on an answer is compressed, as the library does it. */
const COMPRESS_BYTES = 1024;
const COMPRESSIONS = [compressionGzip, compressionBrotli];

/** What calls need of what all RPC methods share. */
export interface UnaryOptions extends MeasureOptions {
  readonly authorize: Authorize;
  readonly withDeadline: WithDeadline;
  readonly readLimitBytes: number;
  readonly bodies: BodyBudget;
  readonly deadlines: { readonly defaultMs: number; readonly maxMs: number };
}

/** A unary method, as it is served here. */
export interface UnaryMethod {
  readonly method: DescMethodUnary;
  readonly impl: (message: Message, context: HandlerContext) => unknown;
  readonly serialization: ReturnType<typeof createMethodSerializationLookup>;
}

/** The unary methods of a service. */
export function unaryMethods<S extends DescService>(
  service: S,
  implementation: Partial<ServiceImpl<S>>,
  readLimitBytes: number,
): UnaryMethod[] {
  const specs: MethodImplSpec[] = Object.values(createServiceImplSpec(service, implementation).methods);
  return specs.flatMap((spec): UnaryMethod[] => {
    if (spec.kind !== "unary") return [];
    const limits = { readMaxBytes: readLimitBytes, writeMaxBytes: 0xffff_ffff };
    const serialization = createMethodSerializationLookup(
      spec.method,
      { readUnknownFields: false },
      JSON_OPTIONS,
      limits,
    );
    return [{ method: spec.method, impl: spec.impl as UnaryMethod["impl"], serialization }];
  });
}

/** Whether the request is a plain unary call: Connect's protocol, and a small body of a known length, not compressed. */
export function isPlainUnary({ method, headers }: ServerRequest): boolean {
  return (
    HOST.test(hostOf(headers)) &&
    method === "POST" &&
    contentTypeUnaryRegExp.test(headers["content-type"] ?? "") &&
    headers["content-encoding"] === undefined &&
    Number(headers["content-length"] ?? Number.NaN) <= MOST_BYTES &&
    /^[1-9]\d{0,9}$/.test(String(headers["connect-timeout-ms"] ?? "1"))
  );
}

/** Serves a plain unary call. Never rejects. */
export async function serveUnary(
  options: UnaryOptions,
  unary: UnaryMethod,
  scope: Scope,
  span: RequestSpan | undefined,
  request: ServerRequest,
  response: ServerResponse,
): Promise<void> {
  const startedAt = performance.now();
  const { deadlines, funnel } = options;
  const { method } = unary;
  const asked = request.headers["connect-timeout-ms"];
  const timeoutMs = Math.min(asked === undefined ? deadlines.defaultMs : Number(asked), deadlines.maxMs);
  let answer: HttpAnswer;
  let outcome: unknown;
  try {
    answer = await options.withDeadline(timeoutMs, response, (signal) =>
      call(options, unary, scope, { request, span, signal, timeoutMs }),
    );
  } catch (caught) {
    const error = funnel(caught, methodName(method));
    outcome = error;
    answer = { ...httpAnswerOf(error), status: codeToHttpStatus(error.code) };
  }
  measureCall(options, method, { startedAt, span }, outcome);
  await writeAnswer(answer, request, response);
}

const HOST = /^[\w.:[\]-]+$/;

function hostOf(headers: ServerRequest["headers"]): string {
  return headers.host ?? String(headers[":authority"] ?? "");
}

async function call(
  { authorize, readLimitBytes, bodies }: UnaryOptions,
  { method, impl, serialization }: UnaryMethod,
  scope: Scope,
  call: Pick<ContextParts, "request" | "span" | "signal" | "timeoutMs">,
): Promise<HttpAnswer> {
  const { request, signal } = call;
  const authorization = await authorize(request.headers.authorization, scope);
  if (!authorization.ok) throw toConnectError(authorization.failure);
  const body = await readBody(request, { maxBytes: readLimitBytes, bodies }, signal);
  const isBinary = request.headers["content-type"]?.toLowerCase() === "application/proto";
  if (!isBinary) demandUtf8(body);
  const message = parse(serialization.getI(isBinary), body);
  const context = createContext({ ...call, method, principal: authorization.caller.principal });
  const output = (await impl(message, context)) as Message;
  const reply = isMessage(output, method.output) ? output : create(method.output, output);
  return await compressed(
    serialization.getO(isBinary).serialize(reply),
    { "content-type": isBinary ? "application/proto" : "application/json" },
    request,
  );
}

function parse({ parse }: ReturnType<UnaryMethod["serialization"]["getI"]>, body: Uint8Array): Message {
  try {
    return parse(body);
  } catch (error) {
    throw asInputFault(error);
  }
}

async function compressed(
  body: Uint8Array,
  headers: Readonly<Record<string, string>>,
  { headers: { "accept-encoding": accepted } }: ServerRequest,
): Promise<HttpAnswer> {
  const plain = { status: 200, headers, body };
  if (body.byteLength < COMPRESS_BYTES || accepted === undefined) return plain;
  const { response } = compressionNegotiate(COMPRESSIONS, null, String(accepted), "accept-encoding");
  if (response === null) return plain;
  const bytes = await response.compress(body);
  return { status: 200, headers: { ...headers, "content-encoding": response.name }, body: bytes };
}

interface ContextParts {
  readonly method: DescMethodUnary;
  readonly request: ServerRequest;
  readonly span: RequestSpan | undefined;
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  readonly principal: string;
}

/** What a handler is given. Headers and the URL are made where they are asked for. */
function createContext({
  method,
  request,
  span,
  signal,
  timeoutMs,
  principal,
}: ContextParts): HandlerContext {
  const until = performance.now() + timeoutMs;
  let requestHeader: Headers | undefined;
  return {
    method,
    service: method.parent,
    signal,
    timeoutMs: () => until - performance.now(),
    requestMethod: "POST",
    protocolName: "connect",
    values: createContextValues().set(principalKey, principal),
    get url() {
      const scheme = "encrypted" in request.socket ? "https" : "http";
      return `${scheme}://${hostOf(request.headers)}${request.url ?? ""}`;
    },
    get requestHeader() {
      return (requestHeader ??= headersOf(request, span));
    },
    get responseHeader(): never {
      throw new Error("No method sets headers of its answer.");
    },
    get responseTrailer(): never {
      throw new Error("No method sets trailers of its answer.");
    },
  };
}

function headersOf(request: ServerRequest, span: RequestSpan | undefined): Headers {
  const headers = new Headers();
  for (const [name, value] of Object.entries(request.headers)) {
    if (value !== undefined && !name.startsWith(":")) headers.set(name, String(value));
  }
  if (span !== undefined) passOn(span.context, headers);
  return headers;
}
