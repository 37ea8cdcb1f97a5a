import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

const CONNECT_MS = 3_000;
const RETRY_MS = 250;

/** A service of the operator's own. */
export interface OwnService {
  readonly name: "PostgreSQL" | "Kafka";
  /** What names its addresses. */
  readonly setting: string;
  /** `host:port`, an IPv6 address in brackets. Empty where it is reached another way, and not to be waited for. */
  readonly addresses: readonly string[];
}

/**
 * Resolves once one of the service's addresses takes connections, and says that it waits where none does at first.
 *
 * @throws Error of one line that names the setting, after `timeoutMs` (default 20,000).
 */
export async function untilReached(
  service: OwnService,
  options: {
    readonly say: (line: string) => void;
    readonly signal?: AbortSignal;
    readonly timeoutMs?: number;
  },
): Promise<void> {
  const { say, signal, timeoutMs = 20_000 } = options;
  const what = `${service.name} at ${service.addresses.join(", ")} (${service.setting})`;
  const deadline = Date.now() + timeoutMs;
  if (service.addresses.length === 0) return;
  for (let isFirst = true; ; isFirst = false) {
    const faults = await Promise.all(service.addresses.map(whyNotReached));
    if (faults.includes(undefined)) return;
    if (Date.now() > deadline)
      throw new Error(
        `${what} was not reached within ${timeoutMs / 1000} s: ${[...new Set(faults)].join(", ")}.`,
      );
    if (isFirst) say(`waiting for ${what}`);
    await sleep(RETRY_MS, undefined, { ...(signal && { signal }) });
  }
}

/** The address in a URL of PostgreSQL's; undefined where that names a Unix socket. */
export function postgresAddress(url: string): string | undefined {
  const { hostname, port } = new URL(url);
  return hostname === "" || hostname.startsWith("%2F")
    ? undefined
    : `${hostname}:${port === "" ? 5432 : port}`;
}

async function whyNotReached(address: string): Promise<string | undefined> {
  const [, host = "", port = ""] = /^(.*):(\d+)$/.exec(address) ?? [];
  const socket = connect(Number(port), host.replace(/^\[(.*)\]$/, "$1"));
  try {
    await once(socket, "connect", { signal: AbortSignal.timeout(CONNECT_MS) });
    return undefined;
  } catch (error) {
    const { code, name } = error as NodeJS.ErrnoException;
    return name === "AbortError" ? "no answer" : (code ?? String(error));
  } finally {
    socket.on("error", () => {}).destroy();
  }
}
