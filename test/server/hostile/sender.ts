import { once } from "node:events";
import * as http from "node:http";
import * as http2 from "node:http2";

import { type Case } from "./cases.ts";

/** What came back of a case. */
export interface Answer {
  /** 0: no answer, the connection was closed. */
  readonly status: number;
  /** Of gRPC and gRPC-Web; undefined where there was none. */
  readonly grpcStatus: number | undefined;
  readonly text: string;
}

/** Sends cases as they are. */
export interface Sender extends Disposable {
  /** Rejects where no answer comes in time. */
  send(request: Case): Promise<Answer>;
}

const ANSWER_MS = 15_000;

/** A sender with as many connections as cases are in flight, and one of HTTP/2. */
export function createSender(baseUrl: string): Sender {
  const { hostname, port } = new URL(baseUrl);
  const agent = new http.Agent({ keepAlive: true, maxSockets: 64 });
  let session: http2.ClientHttp2Session | undefined;

  const send1 = async ({ method, path, headers, body }: Case): Promise<Answer> => {
    const lengths = { "content-length": String(body.length) };
    const request = http.request({
      hostname,
      port,
      agent,
      method,
      path,
      headers: { ...headers, ...lengths },
    });
    request.setTimeout(ANSWER_MS, () => request.destroy(new Error("no answer in time")));
    const { promise, resolve, reject } = Promise.withResolvers<http.IncomingMessage>();
    request.once("response", resolve).once("error", reject);
    request.end(body);
    const response = await promise;
    const text = Buffer.concat((await response.toArray()) as Buffer[]).toString("latin1");
    return { status: response.statusCode ?? 0, grpcStatus: grpcStatusOf(response.headers, text), text };
  };

  const send2 = async ({ method, path, headers, body }: Case): Promise<Answer> => {
    if (session === undefined || session.closed || session.destroyed) {
      session = http2.connect(baseUrl);
      session.on("error", () => undefined);
    }
    const stream = session.request({ ...headers, ":method": method, ":path": path }, { endStream: false });
    stream.setTimeout(ANSWER_MS, () => stream.destroy(new Error("no answer in time")));
    let received: http2.IncomingHttpHeaders & http2.IncomingHttpStatusHeader = {};
    let trailers: http2.IncomingHttpHeaders = {};
    stream.on("response", (each) => (received = each)).on("trailers", (each) => (trailers = each));
    const chunks: Buffer[] = [];
    stream.on("data", (chunk: Buffer) => void chunks.push(chunk));
    const closed = once(stream, "close");
    stream.end(body);
    await closed;
    const text = Buffer.concat(chunks).toString("latin1");
    return {
      status: received[":status"] ?? 0,
      grpcStatus: grpcStatusOf({ ...received, ...trailers }, text),
      text,
    };
  };

  return {
    send: (request) => (request.http2 ? send2(request) : send1(request)),
    [Symbol.dispose]() {
      agent.destroy();
      session?.destroy();
    },
  };
}

/** In headers or trailers, or at the end of a gRPC-Web body. */
function grpcStatusOf(headers: Readonly<Record<string, unknown>>, text: string): number | undefined {
  const given = headers["grpc-status"] ?? /^grpc-status: ?(\d+)\r$/im.exec(text)?.[1];
  return given === undefined ? undefined : Number(given);
}
