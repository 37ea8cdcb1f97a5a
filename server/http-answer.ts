/** What a plain HTTP route answers. */
export interface HttpAnswer {
  readonly status: number;
  /** By name in lower case. content-length is added when the answer is written. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

/** An answer whose body is the JSON text of `value`. */
export function jsonAnswer(status: number, value: unknown): HttpAnswer {
  return {
    status,
    headers: { "content-type": "application/json" },
    body: new TextEncoder().encode(`${JSON.stringify(value)}\n`),
  };
}

/** An answer of plain text. */
export function textAnswer(
  status: number,
  text: string,
  contentType = "text/plain; charset=utf-8",
): HttpAnswer {
  return { status, headers: { "content-type": contentType }, body: new TextEncoder().encode(text) };
}
