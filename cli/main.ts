import { audit, AUDIT_HELP } from "./audit.ts";
import { EXPORT_HELP, exportEvents } from "./export.ts";
import { generate, GENERATE_HELP } from "./generate.ts";
import { outliveReaders } from "./gone-readers.ts";
import { search, SEARCH_HELP } from "./search.ts";
import { send, SEND_HELP } from "./send.ts";
import { UsageError } from "./usage-error.ts";
import { where, WHERE_HELP } from "./where.ts";

interface Command {
  readonly run: (args: readonly string[]) => Promise<number>;
  readonly help: string;
  readonly summary: string;
}

const COMMANDS: Readonly<Record<string, Command>> = {
  send: {
    run: send,
    help: SEND_HELP,
    summary: "sends the events of a file, and goes on where it was broken off",
  },
  generate: {
    run: generate,
    help: GENERATE_HELP,
    summary: "makes realistic events, for demonstrations and benches",
  },
  search: {
    run: search,
    help: SEARCH_HELP,
    summary: "finds stored events, as a table or as lines of JSON",
  },
  export: {
    run: exportEvents,
    help: EXPORT_HELP,
    summary: "writes stored events with their data, and goes on where it was broken off",
  },
  where: {
    run: where,
    help: WHERE_HELP,
    summary: "tells where an event is, and how it came there",
  },
  audit: {
    run: audit,
    help: AUDIT_HELP,
    summary: "proves that every event on the log is accounted for",
  },
};

const HELP = `Usage: weir COMMAND [options]

${Object.entries(COMMANDS)
  .map(([name, { summary }]) => `  ${name.padEnd(10)} ${summary}`)
  .join("\n")}

weir COMMAND --help says more.
`;

/** The `weir` command: runs what its arguments say and resolves with the exit code. */
export async function main([name = "--help", ...args]: readonly string[]): Promise<number> {
  outliveReaders();
  if (name === "--help" || name === "-h" || name === "help") return say(HELP);
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (command === undefined) return complain(`There is no command ${JSON.stringify(name)}.`, HELP);
  if (args.includes("--help") || args.includes("-h")) return say(command.help);
  try {
    return await command.run(args);
  } catch (error) {
    if (error instanceof UsageError || isOfParseArgs(error)) {
      return complain(error.message, `weir ${name} --help says what there is.\n`);
    }
    throw error;
  }
}

function say(text: string): number {
  process.stdout.write(text);
  return 0;
}

function complain(message: string, help: string): number {
  process.stderr.write(`${message}\n\n${help}`);
  return 2;
}

function isOfParseArgs(error: unknown): error is Error {
  return error instanceof Error && "code" in error && String(error.code).startsWith("ERR_PARSE_ARGS_");
}
