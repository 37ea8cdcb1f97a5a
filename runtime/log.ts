import { type DestinationStream, type Logger as PinoLogger, destination, pino, stdTimeFunctions } from "pino";
import { OperatorError } from "./service.ts";
import { type LogLevel } from "./settings/process.ts";

/**
 * What a line of the log carries beside its message. An `error` is written with its stack and its causes, an
 * OperatorError without. Values under
 * names such as `authorization`, `token` and `password` are never written.
 */
export type LogFields = Readonly<Record<string, unknown>>;

/** The structured log of a process. Messages are fixed sentences; what varies goes into fields. */
export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** A logger for a part of the process: its name joins `scope` ("server.ingest"), its fields join every line. */
  scope(name: string, fields?: LogFields): Logger;
}

/** How a process logs. */
export interface LogOptions {
  /** The process, the first part of every scope. */
  readonly name: string;
  /** Lines below it are left out. */
  readonly level: LogLevel;
  /** json: one object a line; pretty: for people; auto: pretty where standard output is a terminal. */
  readonly format: "auto" | "json" | "pretty";
  /** Where lines go; standard output by default. */
  readonly to?: DestinationStream;
}

const SECRET_NAMES = ["authorization", "cookie", "password", "secret", "token"];
const SECRET_PATHS = ["", "*.", "*.*."].flatMap((prefix) => SECRET_NAMES.map((name) => prefix + name));

/** Credentials within text, such as a library's error message: bearer tokens, JWTs, and passwords in URLs. */
const CREDENTIALS =
  /\bBearer\s+[\w.~+/=-]+|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*|(?<=:\/\/[^\s:@/"\\]*:)[^\s@/"\\]+(?=@)/gi;

/** The logger of a process. A line is written out when the call returns, so the last ones before an end are there. */
export async function createLogger(options: LogOptions): Promise<Logger> {
  const terminal = options.to === undefined && process.stdout.isTTY;
  const out = options.to ?? destination({ dest: 1, sync: true });
  const pretty = options.format === "pretty" || (options.format === "auto" && terminal);
  const logger = pino(
    {
      level: options.level,
      base: null,
      timestamp: stdTimeFunctions.isoTime,
      messageKey: "message",
      formatters: { level: (label) => ({ level: label }) },
      serializers: { error: describeError },
      redact: { paths: SECRET_PATHS, censor: "[hidden]" },
      hooks: { streamWrite: (line) => line.replace(CREDENTIALS, "[hidden]") },
    },
    pretty ? await prettied(out, terminal) : out,
  );
  return toLogger(logger, options.name, {});
}

async function prettied(out: DestinationStream, colorize: boolean): Promise<DestinationStream> {
  // Only a person pays for its import.
  const { prettyFactory } = await import("pino-pretty");
  const format = prettyFactory({
    colorize,
    translateTime: "SYS:HH:MM:ss.l",
    messageKey: "message",
    messageFormat: "{scope}: {message}",
    ignore: "scope",
    errorLikeObjectKeys: ["error"],
    singleLine: true,
  });
  return { write: (line) => out.write(format(line)) };
}

function toLogger(root: PinoLogger, scope: string, fields: LogFields): Logger {
  const logger = root.child({ scope, ...fields });
  return {
    debug: (message, more) => logger.debug(more ?? {}, message),
    info: (message, more) => logger.info(more ?? {}, message),
    warn: (message, more) => logger.warn(more ?? {}, message),
    error: (message, more) => logger.error(more ?? {}, message),
    scope: (name, more) => toLogger(root, `${scope}.${name}`, { ...fields, ...more }),
  };
}

/** An error as the log shows it. Closed: libraries hang requests, headers and connections on their errors. */
interface DescribedError {
  readonly name: string;
  readonly message: string;
  readonly code?: unknown;
  readonly stack?: string;
  readonly cause?: DescribedError;
  readonly errors?: readonly DescribedError[];
}

const MAX_DEPTH = 5;

function describeError(error: unknown, depth = 0): DescribedError {
  if (!(error instanceof Error)) return { name: typeof error, message: String(error) };
  if (error instanceof OperatorError) return { name: error.name, message: error.message };
  const nested = depth < MAX_DEPTH;
  return {
    name: error.name,
    message: error.message,
    ...("code" in error ? { code: error.code } : {}),
    ...(error.stack === undefined ? {} : { stack: error.stack }),
    ...(nested && error.cause !== undefined ? { cause: describeError(error.cause, depth + 1) } : {}),
    ...(nested && error instanceof AggregateError
      ? { errors: error.errors.slice(0, MAX_DEPTH).map((each: unknown) => describeError(each, depth + 1)) }
      : {}),
  };
}
