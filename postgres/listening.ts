import pg from "pg";

import { type Logger } from "#runtime/log.ts";

/** What {@link createListening} needs. */
export interface ListeningOptions {
  /** The database, a primary: a replica takes no LISTEN. */
  readonly url: string;
  /** A name of ours, which needs no quotes. */
  readonly channel: string;
  /** What the server shows in pg_stat_activity. */
  readonly applicationName: string;
  /** Called for every notification, and when the connection stands (anew): what came before it was missed. */
  readonly heard: () => void;
  readonly log: Logger;
}

/** One connection that listens on a channel. */
export interface Listening {
  /** Sees to it that there is the connection, again and again where it is lost, until {@link close}. */
  open(): void;
  close(): void;
}

const CONNECT_TIMEOUT_MS = 5_000;
const RETRY_MS = 1_000;

/** Makes no connection until it is opened. What keeps it from one is logged once, until there is one again. */
export function createListening({ url, channel, applicationName, heard, log }: ListeningOptions): Listening {
  let client: pg.Client | undefined;
  let retry: NodeJS.Timeout | undefined;
  let isOpen = false;
  let isTold = false;

  async function connect(): Promise<void> {
    const own = new pg.Client({
      connectionString: url,
      application_name: applicationName,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      query_timeout: CONNECT_TIMEOUT_MS,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
    });
    client = own;
    const lost = (error?: unknown): void => {
      if (client !== own) return;
      client = undefined;
      end(own);
      if (!isTold) log.warn("Notifications are not heard at the moment; there are polls", { error });
      isTold = true;
      retry = setTimeout(() => void connect(), RETRY_MS).unref();
    };
    own.on("error", lost).on("end", lost).on("notification", heard);
    try {
      await own.connect();
      await own.query(`listen ${channel}`);
    } catch (error) {
      lost(error);
      return;
    }
    if (client !== own) return;
    if (isTold) log.info("Notifications are heard again");
    isTold = false;
    heard();
  }

  return {
    open() {
      if (isOpen) return;
      isOpen = true;
      void connect();
    },
    close() {
      isOpen = false;
      clearTimeout(retry);
      const own = client;
      client = undefined;
      if (own !== undefined) end(own);
    },
  };
}

/** Rejects where the connection broke or never stood, which changes nothing. */
function end(client: pg.Client): void {
  client.end().catch(() => undefined);
}
