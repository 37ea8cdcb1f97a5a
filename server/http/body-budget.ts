import { Code, type ConnectError } from "@connectrpc/connect";
import { toConnectError } from "../errors.ts";

/** What request bodies may hold in memory together while they are read, whoever sends them and however slowly. */
export interface BodyBudget {
  readonly limitBytes: number;
  readonly heldBytes: number;
  /** Begins to count one body. */
  open(): HeldBody;
}

/**
 * Is told how many bytes a body holds now, as they came and inflated. Answers the refusal, UNAVAILABLE (BODY_CAPACITY), where
 * there is no room for them.
 */
export type Hold = (bytes: number) => ConnectError | undefined;

/** A body that is being read. */
export interface HeldBody {
  readonly hold: Hold;
  /** Gives back what the body holds, for good. */
  release(): void;
}

/** A budget of so many bytes. */
export function createBodyBudget(limitBytes: number): BodyBudget {
  let heldBytes = 0;
  return {
    limitBytes,
    get heldBytes() {
      return heldBytes;
    },
    open() {
      let mine = 0;
      let isReleased = false;
      return {
        hold(bytes) {
          if (isReleased) return undefined;
          if (bytes > mine && heldBytes - mine + bytes > limitBytes) return bodyCapacity(limitBytes);
          heldBytes += bytes - mine;
          mine = bytes;
          return undefined;
        },
        release() {
          heldBytes -= mine;
          mine = 0;
          isReleased = true;
        },
      };
    },
  };
}

const HEAD_BYTES = 5;

/**
 * Counts what a body of frames holds (a byte of flags, four of length: gRPC, gRPC-Web, streams of Connect): the frame that
 * is not whole yet. Give it every chunk.
 */
export function createFrameCount(): (chunk: Uint8Array) => number {
  const head = new Uint8Array(HEAD_BYTES);
  let size = 0;
  let held = 0;
  return (chunk) => {
    for (let at = 0; at < chunk.length;) {
      if (held < HEAD_BYTES) {
        head[held] = chunk[at]!;
        held += 1;
        at += 1;
        if (held < HEAD_BYTES) continue;
        size = HEAD_BYTES + new DataView(head.buffer).getUint32(1);
      } else {
        const part = Math.min(size - held, chunk.length - at);
        held += part;
        at += part;
      }
      if (held === size) held = 0;
    }
    return held;
  };
}

/** Counts what a body holds that is one message. Give it every chunk. */
export function createByteCount(): (chunk: Uint8Array) => number {
  let held = 0;
  return (chunk) => (held += chunk.length);
}

function bodyCapacity(limitBytes: number): ConnectError {
  return toConnectError({
    code: Code.Unavailable,
    reason: "BODY_CAPACITY",
    message: `The request bodies that are being read hold as much as they may on this server, ${String(limitBytes)} bytes. Nothing was done with this one: try again.`,
    metadata: { limit: String(limitBytes), unit: "bytes", setting: "WEIR_MAX_BODY_MEMORY" },
    retryAfterMs: 1_000,
  });
}
