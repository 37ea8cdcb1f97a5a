import { createWeirClient, type WeirClient } from "../sdk/index.ts";
import { UsageError } from "./usage-error.ts";

/** The options that say where Weir is, for parseArgs; every command has them. */
export const CONNECTION_OPTIONS = { url: { type: "string" }, token: { type: "string" } } as const;

/** What the help of a command says of them. */
export const CONNECTION_HELP = `  --url URL          where Weir answers; else WEIR_URL, else http://127.0.0.1:8080
  --token TOKEN      the bearer token; else WEIR_TOKEN (better: a command line can be seen by others)
`;

/** Where Weir is, and how to talk to it. */
export interface Connection {
  readonly url: string;
  readonly weir: WeirClient;
}

/** The connection that options and environment name. Throws a UsageError where they do not. */
export function connect(options: {
  readonly url?: string | undefined;
  readonly token?: string | undefined;
}): Connection {
  const url = options.url ?? process.env["WEIR_URL"] ?? "http://127.0.0.1:8080";
  const token = options.token ?? process.env["WEIR_TOKEN"] ?? "";
  if (token === "") {
    throw new UsageError(
      "There is no token: set WEIR_TOKEN, or give --token. In a clone, `npm run --silent token` prints one.",
    );
  }
  try {
    return { url, weir: createWeirClient({ baseUrl: url, token }) };
  } catch (error) {
    throw new UsageError(`--url: ${(error as Error).message}.`);
  }
}
