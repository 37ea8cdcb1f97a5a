import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { z } from "zod";

/** A port of 127.0.0.1 that nobody listens on at this moment. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

/** Why one cannot listen here now, such as `EADDRINUSE`; undefined where one can. */
export function whyNotFree(port: number, host: string): Promise<string | undefined> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    server.listen(port, host, () => server.close(() => resolve(undefined)));
  });
}

/**
 * A free port of 127.0.0.1 for each name, no two alike and none of those that are `promised` to others: the one of the
 * last time, as kept in this file, where it is still free.
 */
export async function rememberedPorts<Name extends string>(
  file: string,
  names: readonly Name[],
  promised: readonly number[] = [],
): Promise<Record<Name, number>> {
  const remembered = readPorts(file);
  const chosen = new Map<Name, number>();
  for (const name of names) {
    let port = remembered[name];
    const isTaken = (candidate: number): boolean => [...promised, ...chosen.values()].includes(candidate);
    if (port === undefined || isTaken(port) || (await whyNotFree(port, "127.0.0.1")) !== undefined) {
      do port = await freePort();
      while (isTaken(port));
    }
    chosen.set(name, port);
  }
  const ports = Object.fromEntries(chosen) as Record<Name, number>;
  writeFileSync(file, `${JSON.stringify({ ...remembered, ...ports }, null, 2)}\n`);
  return ports;
}

function readPorts(file: string): Readonly<Record<string, number>> {
  try {
    return z.record(z.string(), z.int().min(1).max(65_535)).parse(JSON.parse(readFileSync(file, "utf8")));
  } catch {
    return {};
  }
}
