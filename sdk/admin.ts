import { type Client, createClient } from "@connectrpc/connect";
import { AccountingService } from "./gen/weir/admin/v1/accounting_pb.ts";
import { AuditService } from "./gen/weir/admin/v1/audit_pb.ts";
import { DeadLetterAdminService } from "./gen/weir/admin/v1/dead_letter_pb.ts";
import { OverviewService } from "./gen/weir/v1/overview_pb.ts";
import { createTransport, type WeirClientOptions } from "./transport.ts";

export { AccountingService, AuditService, DeadLetterAdminService, OverviewService };
export { type AuditEntry } from "./gen/weir/admin/v1/audit_pb.ts";
export {
  type DeadLetter,
  type Redrive,
  RedriveState,
  ReplayAction,
  ReplayOutcome,
} from "./gen/weir/admin/v1/dead_letter_pb.ts";
export { type WeirClientOptions } from "./transport.ts";

/** Weir's services for operators, apart from those of producers and readers so that a page loads only what it uses. */
export interface WeirAdminClient {
  /** Proves that every event is accounted for: auditLog. */
  readonly accounting: Client<typeof AccountingService>;
  /** What people did through these services: listAuditEntries. */
  readonly audit: Client<typeof AuditService>;
  /** What could not be stored, and its way back: listDeadLetters, getDeadLetter, replayDeadLetters, startRedrive and others. */
  readonly deadLetters: Client<typeof DeadLetterAdminService>;
  /** What came in lately, summed up: getOverview, which wants the scope `events.read`. */
  readonly overview: Client<typeof OverviewService>;
}

/**
 * A client of Weir's admin services, as `createWeirClient` is one of the others. The token needs the scope `admin.read`,
 * and `admin.write` for what changes anything. A long read, such as auditLog, wants a longer `timeoutMs`.
 *
 * Throws a TypeError where baseUrl is not an absolute http or https URL, and where the token cannot stand in a header.
 *
 * @example
 * ```ts
 * const admin = createWeirAdminClient({ baseUrl: "http://127.0.0.1:8080", token });
 * const { deadLetters } = await admin.deadLetters.listDeadLetters({ reason: "MALFORMED" });
 * ```
 */
export function createWeirAdminClient(options: WeirClientOptions): WeirAdminClient {
  const transport = createTransport(options);
  return {
    accounting: createClient(AccountingService, transport),
    audit: createClient(AuditService, transport),
    deadLetters: createClient(DeadLetterAdminService, transport),
    overview: createClient(OverviewService, transport),
  };
}
