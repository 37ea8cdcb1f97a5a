import { causeOf, deadlineExceeded, endOf, GRACE_MS } from "./deadlines.ts";
import { type ServerResponse } from "./listener.ts";

/**
 * Runs the work of one request with a signal that is raised at its deadline, when its client goes away, and at the end of a
 * stop. Settles as the work does, or, whatever the work does, soon after the signal with what it was raised for.
 *
 * @param timeoutMs the deadline, from now.
 */
export type WithDeadline = <T>(
  timeoutMs: number,
  response: ServerResponse,
  work: (signal: AbortSignal) => Promise<T>,
) => Promise<T>;

/**
 * The deadlines of a server's requests. `shutdown` is raised, with an error of toConnectError's, when what is in flight must
 * end. It has one listener for all of them, as an AbortSignal walks through all that it has whenever one comes or goes.
 */
export function createCallDeadlines(shutdown: AbortSignal): WithDeadline {
  const open = new Set<(reason: unknown) => void>();
  shutdown.addEventListener("abort", () => {
    for (const end of open) end(shutdown.reason);
  });
  return (timeoutMs, response, work) =>
    new Promise((resolve, reject) => {
      const controller = new AbortController();
      const { signal } = controller;
      let grace: NodeJS.Timeout | undefined;
      const end = (reason?: unknown): void => {
        if (signal.aborted) return;
        controller.abort(reason);
        // The work is waited for a moment longer: it may know more (an event was sent and no acknowledgement seen).
        grace = setTimeout(() => {
          settled();
          reject(endOf(signal));
        }, GRACE_MS);
      };
      const onClose = (): void => end();
      const deadline = setTimeout(() => end(deadlineExceeded()), timeoutMs);
      response.once("close", onClose);
      open.add(end);
      const settled = (): void => {
        clearTimeout(deadline);
        clearTimeout(grace);
        response.off("close", onClose);
        open.delete(end);
      };
      if (shutdown.aborted) end(shutdown.reason);
      work(signal).then(
        (value) => {
          settled();
          resolve(value);
        },
        (error: unknown) => {
          settled();
          reject(causeOf(error, signal) as Error);
        },
      );
    });
}
