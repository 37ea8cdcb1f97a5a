import { type Service } from "#runtime/service.ts";

/** What a role cannot work without. */
export type Dependency = "kafka" | "postgresql";

/** What a worker process does, by name. It works for as long as it runs, and waits for what is away. */
export interface Role extends Service {
  readonly dependencies: readonly Dependency[];
  /** Why it does not do its work at the moment; undefined while it does. */
  readonly fault: string | undefined;
  /** The fault stays until a person has cured it, and nothing else of the role is still about to start. */
  readonly failed: boolean;
}
