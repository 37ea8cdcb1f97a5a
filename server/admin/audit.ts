import {
  type DescMethod,
  getOption,
  hasOption,
  type JsonValue,
  type Message,
  toJson,
} from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  type ConnectRouter,
  type ContextKey,
  createContextKey,
  type HandlerContext,
} from "@connectrpc/connect";
import { type Reason } from "#core/reason.ts";
import { scope as scopeOption } from "#gen/weir/v1/options_pb.ts";
import { endEntry, startEntry } from "#postgres/audit.ts";
import { type Database } from "#postgres/pool.ts";
import { type Logger } from "#runtime/log.ts";
import { principalKey } from "../auth/auth.ts";
import { endOf } from "../http/deadlines.ts";
import { reasonOf, toConnectError } from "../errors.ts";
import { methodName } from "../http/rpc-call.ts";
import { type Scope } from "../auth/scopes.ts";

/** What the handler of a method that writes tells the audit. */
export interface AuditNote {
  /** The resource name of the call's entry. */
  readonly entry: string;
  /** What was done, in counts and names; never a payload. Told as soon as it is known, for the call may fail. */
  outcome?: Readonly<Record<string, unknown>>;
  /** Why it was not done whole, where the call is answered all the same. */
  result?: Reason;
}

/** Where a handler notes what it did. Handlers of the scope admin.write alone have one. */
export const auditKey: ContextKey<AuditNote | undefined> = createContextKey<AuditNote | undefined>(undefined);

/** What the audit needs. */
export interface AuditOptions {
  readonly database: Database;
  readonly log: Logger;
}

const AUDITED: Scope = "admin.write";
const MAX_REQUEST_CHARACTERS = 64 * 1024;
const SHOWN_CHARACTERS = 4 * 1024;

type Handler = (request: Message, context: HandlerContext) => unknown;

/**
 * A router that writes an audit entry for every call of a method whose scope is admin.write, whatever its handler does:
 * before the handler is called, without which it is not, and again with its result. `dry_run` of the request is true unless
 * it is false, where it has one; `name`, or the one of `names`, is the resource.
 */
export function auditWrites(router: ConnectRouter, options: AuditOptions): ConnectRouter {
  return {
    handlers: router.handlers,
    rpc(method, ...rest: readonly unknown[]) {
      if (isAudited(method)) throw new Error("Register methods of the scope admin.write by their service.");
      (router.rpc as (...args: readonly unknown[]) => unknown)(method, ...rest);
      return this;
    },
    service(service, implementation, own) {
      const handlers = implementation as Readonly<Record<string, Handler>>;
      const audited = service.methods.filter(isAudited).map((method) => {
        if (method.methodKind !== "unary")
          throw new Error(`${methodName(method)} streams: no audit knows how.`);
        const { localName } = method;
        const handler = handlers[localName];
        return [localName, handler && audit(method, handler.bind(implementation), options)] as const;
      });
      router.service(service, { ...implementation, ...Object.fromEntries(audited) }, own);
      return this;
    },
  };
}

/** The resource name of an audit entry. */
export function entryName(id: bigint): string {
  return `auditEntries/${id}`;
}

function isAudited(method: DescMethod): boolean {
  return hasOption(method, scopeOption) && getOption(method, scopeOption) === AUDITED;
}

function audit(method: DescMethod, handler: Handler, { database, log }: AuditOptions): Handler {
  return async (request, context) => {
    const entry = {
      principal: context.values.get(principalKey),
      method: methodName(method),
      ...describe(method, request),
    };
    let id: bigint;
    try {
      id = await startEntry(database, entry);
    } catch (error) {
      throw entryNotWritten(error);
    }
    const note: AuditNote = { entry: entryName(id) };
    context.values.set(auditKey, note);
    let result = "OK";
    try {
      // Who waits no longer for the answer is not to be surprised later.
      if (context.signal.aborted) throw endOf(context.signal);
      return await handler(request, context);
    } catch (error) {
      result = (error instanceof ConnectError && reasonOf(error)) || "INTERNAL";
      throw error;
    } finally {
      const outcome = note.outcome && { outcome: note.outcome };
      await endEntry(database, id, note.result ?? result, outcome ?? {}).catch((error: unknown) =>
        log.error("What became of an audited call could not be written: its entry stays STARTED", {
          entry: String(id),
          method: entry.method,
          result: note.result ?? result,
          ...outcome,
          error,
        }),
      );
    }
  };
}

/** What the fields of a request say, by the names that they have in every admin service. */
function describe(
  method: DescMethod,
  request: Message,
): { readonly resource: string; readonly dryRun: boolean; readonly detail: Record<string, JsonValue> } {
  const { name, names, dryRun } = request as { name?: unknown; names?: unknown; dryRun?: unknown };
  const named: readonly unknown[] = Array.isArray(names) ? names : [name];
  const [only] = named.length === 1 ? named : [];
  const json = toJson(method.input, request);
  const text = JSON.stringify(json);
  return {
    resource: typeof only === "string" ? only : "",
    dryRun: method.input.field["dryRun"] !== undefined && dryRun !== false,
    detail:
      text.length <= MAX_REQUEST_CHARACTERS
        ? { request: json }
        : { requestBegins: text.slice(0, SHOWN_CHARACTERS), requestCharacters: text.length },
  };
}

function entryNotWritten(cause: unknown): ConnectError {
  return toConnectError(
    {
      code: Code.Unavailable,
      reason: "DATABASE_UNAVAILABLE",
      message:
        "The audit entry of this call cannot be written at the moment, so nothing was done. Try again.",
      retryAfterMs: 1_000,
    },
    cause,
  );
}
