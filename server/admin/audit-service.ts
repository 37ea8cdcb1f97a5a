import { type JsonObject } from "@bufbuild/protobuf";
import { type ServiceImpl } from "@connectrpc/connect";
import { decodePageToken, encodePageToken, type PageQuestion } from "#core/page-token.ts";
import { type AuditService } from "#gen/weir/admin/v1/audit_pb.ts";
import { type AuditEntry, listEntries } from "#postgres/audit.ts";
import { type Database } from "#postgres/pool.ts";
import { type InTurn } from "./admin-turns.ts";
import { entryName } from "./audit.ts";
import { failureOf, toConnectError } from "../errors.ts";
import { readPageSize } from "../page-size.ts";
import { fromMicros } from "../wire.ts";

/** What AuditService needs. */
export interface AuditServiceOptions {
  readonly database: Database;
  readonly inTurn: InTurn;
}

const QUESTION: PageQuestion = { filter: "", order: "audit entries, id desc" };

/** weir.admin.v1.AuditService over the entries that `auditWrites` makes. */
export function createAuditService({
  database,
  inTurn,
}: AuditServiceOptions): ServiceImpl<typeof AuditService> {
  return {
    async listAuditEntries({ pageSize, pageToken }, { signal }) {
      const size = readPageSize(pageSize);
      const after = pageToken === "" ? undefined : decodePageToken(pageToken, QUESTION);
      const faults = [...size.faults, ...(after?.ok === false ? after.faults : [])];
      if (faults.length > 0 || after?.ok === false) throw toConnectError(failureOf(faults as never));
      const found = await inTurn(signal, () =>
        // One more than asked for says whether there is a page after this one.
        listEntries(database, { before: after?.value.offset, limit: size.value + 1 }),
      );
      const entries = found.slice(0, size.value);
      const last = found.length > size.value ? entries.at(-1) : undefined;
      const nextPageToken =
        last && encodePageToken({ time: last.time, partition: 0, offset: last.id }, QUESTION);
      return { auditEntries: entries.map(toEntryMessage), nextPageToken: nextPageToken ?? "" };
    },
  };
}

function toEntryMessage({ id, time, detail, ...entry }: AuditEntry) {
  return { ...entry, name: entryName(id), time: fromMicros(time), detail: detail as JsonObject };
}
