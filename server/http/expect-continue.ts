import { type ServerRequest, type ServerResponse } from "./listener.ts";

// A client that sends `Expect: 100-continue` holds its body back until it is asked for (RFC 9110 section 10.1.1). It is
// asked where the body is first read, thus not for a request that is refused by its headers.

const held = new WeakMap<ServerRequest, () => void>();

/** Takes note that the client holds the body back. */
export function holdBody(request: ServerRequest, response: ServerResponse): void {
  held.set(request, () => response.writeContinue());
}

/** Asks for the body where the client holds it back. */
export function askForBody(request: ServerRequest): void {
  held.get(request)?.();
  held.delete(request);
}

/** Whether the client holds the body back and was not asked for it. */
export function isBodyHeld(request: ServerRequest): boolean {
  return held.has(request);
}
