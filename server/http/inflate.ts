import * as zlib from "node:zlib";
import { Code, ConnectError } from "@connectrpc/connect";
import { type Hold } from "./body-budget.ts";
import { messageTooLarge, toConnectError } from "../errors.ts";

/** A content coding that is read, by its name in HTTP, Connect and gRPC. */
export type Coding = "gzip" | "br";

const INFLATERS: Readonly<Record<Coding, () => zlib.Gunzip | zlib.BrotliDecompress>> = {
  gzip: zlib.createGunzip,
  br: zlib.createBrotliDecompress,
};

/** Whether a content coding of the name is read. */
export function isCoding(name: string | null | undefined): name is Coding {
  return name != null && Object.hasOwn(INFLATERS, name);
}

/**
 * Inflates a message. A kilobyte may become a megabyte, so that `hold` is asked at every step, for what is
 * compressed and what is inflated of it together.
 *
 * @throws ConnectError: what `hold` answers; MESSAGE_TOO_LARGE where more than `maxBytes` come out; INVALID_REQUEST for
 * what does not inflate, or has more behind its end.
 */
export function inflate(
  coding: Coding,
  bytes: Uint8Array,
  maxBytes: number,
  hold: Hold,
): Promise<Uint8Array> {
  // As the RPC library has it: a frame may say that it is compressed, and be empty.
  if (bytes.byteLength === 0) return Promise.resolve(bytes);
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const inflater = INFLATERS[coding]();
    inflater.on("data", (chunk: Buffer) => {
      size += chunk.byteLength;
      const refusal = size > maxBytes ? messageTooLarge(maxBytes) : hold(bytes.byteLength + size);
      if (refusal === undefined) chunks.push(chunk);
      else inflater.destroy(refusal);
    });
    inflater.once("end", () => {
      if (inflater.bytesWritten === bytes.byteLength) resolve(Buffer.concat(chunks));
      else
        reject(doesNotInflate(coding, new Error("Something stands behind the end of what is compressed.")));
    });
    inflater.once("error", (error) =>
      reject(error instanceof ConnectError ? error : doesNotInflate(coding, error)),
    );
    inflater.end(bytes);
  });
}

function doesNotInflate(coding: Coding, cause: unknown): ConnectError {
  return toConnectError(
    {
      code: Code.InvalidArgument,
      reason: "INVALID_REQUEST",
      message: `The message does not inflate by ${coding}.`,
    },
    cause,
  );
}
