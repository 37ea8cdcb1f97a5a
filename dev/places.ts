import { whyNotFree } from "./ports.ts";

/** A setting that names a port, and what it names. */
export type NamedPort = readonly [setting: string, port: number];

/** Such as one that no interface has, and a name that stands for none (getaddrinfo's codes begin with EAI_). */
const BAD_HOST = /^(EADDRNOTAVAIL|EINVAL|ENOTFOUND|EAI_\w+)$/;

/**
 * Sees that each of these ports can be listened on, before anything is started: who answers there later is ours.
 *
 * @throws Error of one line that names the setting to change.
 */
export async function requireFree(host: string, ports: readonly NamedPort[]): Promise<void> {
  const settings = new Map<number, string>();
  for (const [setting, port] of ports) {
    const other = settings.get(port);
    if (other !== undefined)
      throw new Error(`${other} and ${setting} are both ${port}: set ${setting} to another.`);
    settings.set(port, setting);
    const why = await whyNotFree(port, host);
    if (why === undefined) continue;
    throw new Error(
      BAD_HOST.test(why)
        ? `Nothing can listen on ${host} (${why}): set WEIR_HOST to an address of this machine.`
        : `Port ${port} of ${host} is not to be had (${why}): set ${setting} to another.`,
    );
  }
}
