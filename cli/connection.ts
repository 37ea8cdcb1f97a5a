import { createWeirAdminClient, type WeirAdminClient } from "../sdk/admin.ts";
import { createWeirClient, type WeirClient } from "../sdk/index.ts";
import { UsageError } from "./usage-error.ts";

/** The options that say where Weir is, for parseArgs; every command has them. */
export const CONNECTION_OPTIONS = { url: { type: "string" }, token: { type: "string" } } as const;

/** What the help of a command says of them. */
export const CONNECTION_HELP = `  --url URL          where Weir answers; else WEIR_URL, else http://127.0.0.1:8080
  --token TOKEN      the bearer token; else WEIR_TOKEN (better: a command line can be seen by others)
`;

interface Named {
  readonly url?: string | undefined;
  readonly token?: string | undefined;
}

/** Where Weir is, and how to talk to it. */
export interface Connection {
  readonly url: string;
  readonly weir: WeirClient;
}

/** As {@link Connection}, with the services for operators. */
export interface AdminConnection {
  readonly url: string;
  readonly admin: WeirAdminClient;
}

/** The connection that options and environment name. Throws a UsageError where they do not. */
export function connect(options: Named): Connection {
  const { baseUrl, token } = place(options);
  return { url: baseUrl, weir: created(() => createWeirClient({ baseUrl, token })) };
}

/** As {@link connect}, with the services for operators. */
export function connectAdmin(options: Named): AdminConnection {
  const { baseUrl, token } = place(options);
  return { url: baseUrl, admin: created(() => createWeirAdminClient({ baseUrl, token })) };
}

function place(options: Named): { readonly baseUrl: string; readonly token: string } {
  const token = (options.token ?? process.env["WEIR_TOKEN"] ?? "").trim();
  if (token === "") {
    throw new UsageError(
      "There is no token: set WEIR_TOKEN, or give --token. In a clone, `npm run --silent token` prints one.",
    );
  }
  if (!/^[!-~]+$/.test(token)) {
    const name = options.token === undefined ? "WEIR_TOKEN" : "--token";
    throw new UsageError(
      `${name} is no token: it has a line break, a space or another character that none has.`,
    );
  }
  return { baseUrl: options.url ?? process.env["WEIR_URL"] ?? "http://127.0.0.1:8080", token };
}

function created<T>(create: () => T): T {
  try {
    return create();
  } catch (error) {
    throw new UsageError(`--url: ${(error as Error).message}.`);
  }
}
