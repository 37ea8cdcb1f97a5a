import { type Logger } from "#runtime/log.ts";

/** A logger that keeps nothing, for tests that do not look at the log. */
export const silentLogger: Logger = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  scope: () => silentLogger,
};
