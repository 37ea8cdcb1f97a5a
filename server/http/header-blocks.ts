import { type ServerHttp2Session } from "node:http2";

/** Watches the headers that HTTP/2 clients send. */
export interface HeaderWatch {
  /** Watches a session until it closes. */
  add(session: ServerHttp2Session): void;
}

interface Watched {
  /** Up to this stream, the headers of every request are known to be whole. */
  whole: number;
  /** The stream whose headers are asked about by a PING, and since when. */
  asked: { readonly stream: number; readonly since: number } | undefined;
}

const CHECK_INTERVAL_MS = 1_000;

/**
 * Destroys sessions whose client takes longer than `timeoutMs` (and up to two seconds) over the headers of a request: Node
 * would keep one with half a header block for as long as it has streams, or is not idle.
 *
 * Node tells of whole headers alone, but the session's last stream counts from their first byte. Where it is ahead, the
 * headers are under way, or they were refused, which Node does not tell either. A PING tells the two apart: between the
 * frames of a header block a client may send no other (RFC 9113 section 6.2), so whoever answers it has sent them whole.
 * Half a trailer is not seen: the deadline of its call ends it.
 */
export function createHeaderWatch(timeoutMs: number): HeaderWatch {
  const sessions = new Map<ServerHttp2Session, Watched>();
  let timer: NodeJS.Timeout | undefined;

  const check = (): void => {
    for (const [session, watched] of sessions) {
      const stream = session.state.lastProcStreamID ?? 0;
      if (watched.asked !== undefined) {
        if (performance.now() - watched.asked.since >= timeoutMs) session.destroy();
      } else if (stream > watched.whole) {
        watched.asked = { stream, since: performance.now() };
        session.ping((error) => {
          watched.asked = undefined;
          if (error === null) watched.whole = Math.max(watched.whole, stream);
        });
      }
    }
  };

  return {
    add(session) {
      const watched: Watched = { whole: 0, asked: undefined };
      sessions.set(session, watched);
      timer ??= setInterval(check, Math.min(CHECK_INTERVAL_MS, timeoutMs)).unref();
      session.on("stream", ({ id = 0 }) => {
        watched.whole = Math.max(watched.whole, id);
      });
      session.once("close", () => {
        sessions.delete(session);
        if (sessions.size > 0) return;
        clearInterval(timer);
        timer = undefined;
      });
    },
  };
}
