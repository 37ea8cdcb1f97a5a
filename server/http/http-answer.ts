import { type ServerRequest, type ServerResponse } from "./listener.ts";
import { discardBody, stopSending } from "./request-body.ts";

/** What a plain HTTP route answers. */
export interface HttpAnswer {
  readonly status: number;
  /** By name in lower case; content-length is added when it is written. */
  readonly headers: Readonly<Record<string, string>>;
  /** Text goes out in UTF-8, in one piece with the headers; bytes cost a second buffer. */
  readonly body: Uint8Array | string;
}

/** An answer whose body is the JSON text of `value`. */
export function jsonAnswer(status: number, value: unknown): HttpAnswer {
  return textAnswer(status, `${JSON.stringify(value)}\n`, "application/json");
}

/** An answer of text. */
export function textAnswer(
  status: number,
  text: string,
  contentType = "text/plain; charset=utf-8",
): HttpAnswer {
  return { status, headers: { "content-type": contentType }, body: text };
}

/** Writes the answer, also where the request's body was not read; nothing where the client has gone. */
export async function writeAnswer(
  answer: HttpAnswer,
  request: ServerRequest,
  response: ServerResponse,
): Promise<void> {
  await discardBody(request, response);
  if (response.destroyed || response.headersSent) return;
  stopSending(request);
  response.writeHead(answer.status, { ...answer.headers, "content-length": Buffer.byteLength(answer.body) });
  if (request.method === "HEAD") response.end();
  else response.end(answer.body);
}
