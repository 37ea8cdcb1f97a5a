import { type MessageInitShape } from "@bufbuild/protobuf";
import { Code, type ConnectError, type ServiceImpl } from "@connectrpc/connect";
import { type AccountingService, type AuditLogResponseSchema } from "#gen/weir/admin/v1/accounting_pb.ts";
import { type Admin, KafkaError } from "#kafka/ports.ts";
import { REFUSED_LOG } from "#postgres/claims.ts";
import { accountFor, type Passed, passedBy } from "#postgres/log-audit.ts";
import { type Database } from "#postgres/pool.ts";
import { toConnectError } from "../errors.ts";
import { toReadError } from "../read-errors.ts";
import { type SchemaWatch } from "../schema-watch.ts";
import { checkEmpty } from "./empty-ranges.ts";

/** What AccountingService needs. */
export interface AccountingServiceOptions {
  /** For reading alone, with a bound on every statement. */
  readonly database: Database;
  readonly schema: Pick<SchemaWatch, "behind">;
  readonly admin: Pick<Admin, "logRanges" | "readFrom">;
  /** The consumer group that stores events, and the topic that it consumes. */
  readonly group: string;
  readonly topic: string;
}

/** An audit keeps a connection busy, and one says what another would. */
const MAX_AUDITS = 2;

/** weir.admin.v1.AccountingService: the log against the store. */
export function createAccountingService(
  options: AccountingServiceOptions,
): ServiceImpl<typeof AccountingService> {
  let running = 0;
  return {
    async *auditLog(_request, { signal }) {
      if (running === MAX_AUDITS) throw capacityReached();
      running += 1;
      try {
        yield* auditLog(options, signal);
      } catch (error) {
        throw toAuditError(error, options.schema.behind);
      } finally {
        running -= 1;
      }
    },
  };
}

async function* auditLog(
  { database, admin, group, topic }: AccountingServiceOptions,
  signal: AbortSignal,
): AsyncGenerator<MessageInitShape<typeof AuditLogResponseSchema>> {
  // First how far the group has come: what is below that was on the log by then.
  const passed = await passedBy(database, { group, topic });
  const log = await admin.logRanges(topic);
  for (const [partition, { start, end, topicId }] of [...log].toSorted(([a], [b]) => a - b)) {
    const known = passed.get(partition);
    const place = { group, topic, partition, logStart: start, logEnd: end };
    if (known === undefined || isAnother(known, topicId)) {
      yield { ...place, anotherLog: known !== undefined };
      continue;
    }
    const { highWater, logSince } = known;
    // Beyond its end nothing of this log was passed.
    const to = highWater < end ? highWater : end;
    const range = { group, topic, partition, from: start, to, logSince };
    const accounts = await accountFor(database, range, signal);
    const checked = await checkEmpty({ database, admin }, range, accounts, signal);
    yield { ...place, highWater, ...accounts, ...checked };
  }
}

/** Whether what is on the log now is not what was passed. */
function isAnother({ logId }: Passed, topicId: string | undefined): boolean {
  return logId === REFUSED_LOG || (logId !== undefined && topicId !== undefined && logId !== topicId);
}

function capacityReached(): ConnectError {
  return toConnectError({
    code: Code.Unavailable,
    reason: "STREAM_CAPACITY",
    message: `${MAX_AUDITS} audits run on this server, and no more may. Try again once one has ended.`,
    metadata: { limit: String(MAX_AUDITS) },
    retryAfterMs: 10_000,
  });
}

function toAuditError(error: unknown, behind: string | undefined): unknown {
  if (!(error instanceof KafkaError)) return toReadError(error, behind) ?? error;
  return toConnectError(
    {
      code: Code.Unavailable,
      reason: "KAFKA_UNAVAILABLE",
      message: "Kafka cannot be reached at the moment, so the log's ends are not known. Try again.",
      retryAfterMs: 1_000,
    },
    error,
  );
}
