/**
 * Something that runs for as long as its process: the one lifecycle of the whole code base. What only has to be given
 * back at the end (a pool, a producer) is an `AsyncDisposable` on the process's `AsyncDisposableStack` instead.
 */
export interface Service {
  readonly name: string;
  /** Settles once the service does its work; rejects if it never will. */
  readonly ready: Promise<void>;
  /** Runs until the signal is raised, then stops in order and resolves. A rejection ends the process. */
  run(signal: AbortSignal): Promise<void>;
}

/** What an operator must cure. The message says what it is and how, so the log shows that without a stack. */
export class OperatorError extends Error {
  override readonly name = "OperatorError";
}

/** What a dependency says of itself for /readyz and the health service: undefined when well, else the reason. */
export type Probe = () => Promise<string | undefined> | string | undefined;
