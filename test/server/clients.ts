import { type Client, createClient, type Interceptor, type Transport } from "@connectrpc/connect";
import { errorFromJsonBytes } from "@connectrpc/connect/protocol-connect";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
} from "@connectrpc/connect-node";

import { type Status } from "#gen/google/rpc/status_pb.ts";
import { AuditService } from "#gen/weir/admin/v1/audit_pb.ts";
import { DeadLetterAdminService } from "#gen/weir/admin/v1/dead_letter_pb.ts";
import { IngestService } from "#gen/weir/v1/ingest_pb.ts";
import { OverviewService } from "#gen/weir/v1/overview_pb.ts";
import { SearchService } from "#gen/weir/v1/search_pb.ts";
import { TailService } from "#gen/weir/v1/tail_pb.ts";

import { type WeirError, weirErrorOf } from "../../sdk/error.ts";
import { DETAIL_TYPES } from "../../server/errors.ts";

/** Every way to call an RPC method. */
export const PROTOCOLS = ["Connect JSON", "Connect binary", "gRPC", "gRPC-Web"] as const;

/** One of PROTOCOLS. */
export type Protocol = (typeof PROTOCOLS)[number];

/** The services of a server, as a client of one protocol sees them. */
export interface Clients {
  readonly ingest: Client<typeof IngestService>;
  readonly search: Client<typeof SearchService>;
  readonly tail: Client<typeof TailService>;
  readonly overview: Client<typeof OverviewService>;
  readonly deadLetters: Client<typeof DeadLetterAdminService>;
  readonly audit: Client<typeof AuditService>;
}

/** Clients of a server by one protocol; further headers go with every call. */
export function createClients(
  baseUrl: string,
  token: string,
  protocol: Protocol = "Connect binary",
  headers: Readonly<Record<string, string>> = {},
): Clients {
  const bearer: Interceptor = (next) => (request) => {
    request.header.set("authorization", `Bearer ${token}`);
    for (const [name, value] of Object.entries(headers)) request.header.set(name, value);
    return next(request);
  };
  const transport = createTransport(protocol, baseUrl, [bearer]);
  return {
    ingest: createClient(IngestService, transport),
    search: createClient(SearchService, transport),
    tail: createClient(TailService, transport),
    overview: createClient(OverviewService, transport),
    deadLetters: createClient(DeadLetterAdminService, transport),
    audit: createClient(AuditService, transport),
  };
}

function createTransport(protocol: Protocol, baseUrl: string, interceptors: Interceptor[]): Transport {
  switch (protocol) {
    case "Connect JSON":
      return createConnectTransport({
        baseUrl,
        httpVersion: "1.1",
        useBinaryFormat: false,
        jsonOptions: { registry: DETAIL_TYPES },
        interceptors,
      });
    case "Connect binary":
      return createConnectTransport({ baseUrl, httpVersion: "1.1", interceptors });
    case "gRPC":
      return createGrpcTransport({ baseUrl, interceptors });
    case "gRPC-Web":
      return createGrpcWebTransport({ baseUrl, httpVersion: "2", interceptors });
  }
}

/** What a call that must be refused is refused with. */
export async function refusalOf(call: Promise<unknown>): Promise<WeirError> {
  const error = await call.then(
    () => new Error("The call was answered."),
    (reason: unknown) => reason,
  );
  const refusal = weirErrorOf(error);
  if (refusal === undefined) throw error;
  return refusal;
}

/** What a result of a batch or a stream says of an event that was not taken, read as the error of a call is. */
export function statusRefusalOf({ code, message, details }: Status): WeirError {
  const error = new ConnectError(message, code);
  error.details = details.map(({ typeUrl, value }) => ({ type: typeUrl.split("/").at(-1) ?? "", value }));
  const refusal = weirErrorOf(error);
  if (refusal === undefined) throw error;
  return refusal;
}

/** What an HTTP answer refuses a request with, read as a Connect client reads it. */
export async function httpRefusalOf(response: Response): Promise<WeirError & { readonly status: number }> {
  const body = new Uint8Array(await response.arrayBuffer());
  const fallback = new ConnectError(`no error but HTTP ${response.status}`, Code.Unknown);
  const refusal = weirErrorOf(errorFromJsonBytes(body, undefined, fallback));
  if (refusal === undefined) throw fallback;
  return { ...refusal, status: response.status };
}
