import { Code } from "@connectrpc/connect";
import { KafkaError } from "#kafka/ports.ts";
import { endOf } from "../http/deadlines.ts";
import { toConnectError } from "../errors.ts";
import { toReadError } from "../read-errors.ts";
import { type SchemaWatch } from "../schema-watch.ts";
import { type Turns } from "../turns.ts";

const RETRY_AFTER_MS = 1_000;

/**
 * Runs a call of an admin service in its turn.
 *
 * @throws ConnectError for every failure that a caller is told of.
 */
export type InTurn = <T>(signal: AbortSignal, work: () => Promise<T>) => Promise<T>;

/** The turns of all admin services, on the database whose schema is watched. */
export function createInTurn(turns: Turns, schema: Pick<SchemaWatch, "behind">): InTurn {
  return async (signal, work) => {
    try {
      using turn = await turns.take(signal);
      if (turn === undefined) throw capacityReached();
      return await work();
    } catch (error) {
      if (signal.aborted) throw endOf(signal);
      throw toKafkaError(error) ?? toReadError(error, schema.behind) ?? error;
    }
  };
}

function capacityReached(): Error {
  return toConnectError({
    code: Code.Unavailable,
    reason: "ADMIN_CAPACITY",
    message: "As many calls of admin services run and wait as this server allows. Try again.",
    metadata: { setting: "WEIR_ADMIN_CONCURRENCY" },
    retryAfterMs: RETRY_AFTER_MS,
  });
}

function toKafkaError(error: unknown): Error | undefined {
  if (!(error instanceof KafkaError)) return undefined;
  return toConnectError(
    {
      code: Code.Unavailable,
      reason: "KAFKA_UNAVAILABLE",
      message: "Kafka cannot be read from at the moment, and nothing was published. Try again.",
      retryAfterMs: RETRY_AFTER_MS,
    },
    error,
  );
}
