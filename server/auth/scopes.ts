import { type DescMethod, getOption, hasOption } from "@bufbuild/protobuf";
import { scope as scopeOption } from "#gen/weir/v1/options_pb.ts";

/** Every scope that a token can carry. */
export const SCOPES = ["events.write", "events.read", "admin.read", "admin.write"] as const;

/** One of SCOPES. */
export type Scope = (typeof SCOPES)[number];

/** What a method or route demands: a token with the scope, or nothing. */
export type Access = Scope | "open";

/** Open by name, and no others (design § 2, invariant 1). */
const OPEN_SERVICES: ReadonlySet<string> = new Set([
  "grpc.health.v1.Health",
  "grpc.reflection.v1.ServerReflection",
  "grpc.reflection.v1alpha.ServerReflection",
]);
const OPEN_PATHS: ReadonlySet<string> = new Set(["/healthz", "/readyz", "/metrics"]);

/** Methods or routes that nobody, or everybody, could call: the server must not start. The message names each. */
export class AccessError extends Error {
  override readonly name = "AccessError";

  constructor(problems: readonly string[]) {
    super(
      `The server does not start, since access to it is not settled:\n${problems.map((line) => `  ${line}`).join("\n")}`,
    );
  }
}

/**
 * What each method demands, read from its proto option (weir.v1.scope).
 *
 * @throws AccessError naming every method that has no scope and is not open by name, or whose scope does not exist.
 */
export function methodAccess(methods: Iterable<DescMethod>): ReadonlyMap<DescMethod, Access> {
  const listed = [...methods].map((method) => {
    const scope = hasOption(method, scopeOption) ? getOption(method, scopeOption) : undefined;
    const fault = (problem: string): string =>
      `${method.parent.typeName}.${method.name} ${problem} (${method.parent.file.name}.proto)`;
    return { subject: method, scope, open: OPEN_SERVICES.has(method.parent.typeName), fault };
  });
  return settle(listed, "give it the option (weir.v1.scope)");
}

/** A plain HTTP route, as far as access goes. */
export interface ScopedRoute {
  readonly method: string;
  readonly path: string;
  /** The scope that a token must carry. Only the open paths have none. */
  readonly scope?: string;
}

/**
 * What each plain HTTP route demands.
 *
 * @throws AccessError as methodAccess does.
 */
export function routeAccess<R extends ScopedRoute>(routes: Iterable<R>): ReadonlyMap<R, Access> {
  const listed = [...routes].map((route) => {
    const fault = (problem: string): string => `${route.method} ${route.path} ${problem}`;
    return { subject: route, scope: route.scope, open: OPEN_PATHS.has(route.path), fault };
  });
  return settle(listed, "give it a scope beside its path");
}

/** Whether these scopes, of a token, include the one that is needed: admin.write includes admin.read. */
export function includesScope(held: ReadonlySet<string>, needed: Scope): boolean {
  return held.has(needed) || (needed === "admin.read" && held.has("admin.write"));
}

interface Listed<T> {
  readonly subject: T;
  readonly scope: string | undefined;
  readonly open: boolean;
  readonly fault: (problem: string) => string;
}

function settle<T>(listed: readonly Listed<T>[], remedy: string): ReadonlyMap<T, Access> {
  const access = new Map<T, Access>();
  const problems: string[] = [];
  for (const { subject, scope, open, fault } of listed) {
    const known = SCOPES.find((each) => each === scope);
    if (open && scope === undefined) access.set(subject, "open");
    else if (known !== undefined && !open) access.set(subject, known);
    else if (open)
      problems.push(fault(`is open by name and must not have a scope, and has "${String(scope)}"`));
    else if (scope === undefined) problems.push(fault(`has no scope: ${remedy}`));
    else
      problems.push(
        fault(`has the scope "${scope}", which does not exist: the scopes are ${SCOPES.join(", ")}`),
      );
  }
  if (problems.length > 0) throw new AccessError(problems);
  return access;
}
