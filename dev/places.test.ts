import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { expect, it } from "vitest";

import { type NamedPort, requireFree } from "./places.ts";
import { freePort } from "./ports.ts";

it("lets pass ports that are free and no two alike", async () => {
  const [port, workersPort] = [await freePort(), await freePort()];
  const ports: readonly NamedPort[] = [
    ["WEIR_PORT", port],
    ["WEIR_WORKERS_PORT", workersPort],
  ];
  await expect(requireFree("127.0.0.1", ports)).resolves.toBeUndefined();
});

it("names both settings of equal ports", async () => {
  const port = await freePort();
  await expect(
    requireFree("127.0.0.1", [
      ["WEIR_PORT", port],
      ["WEIR_WORKERS_PORT", port],
    ]),
  ).rejects.toThrow(`WEIR_PORT and WEIR_WORKERS_PORT are both ${port}: set WEIR_WORKERS_PORT to another.`);
});

it("names the setting of a port that is taken", async () => {
  const other = createServer().listen(0, "127.0.0.1");
  await once(other, "listening");
  const { port } = other.address() as AddressInfo;
  await expect(requireFree("127.0.0.1", [["WEIR_METRICS_PORT", port]])).rejects.toThrow(
    `Port ${port} of 127.0.0.1 is not to be had (EADDRINUSE): set WEIR_METRICS_PORT to another.`,
  );
  other.close();
});

it.each(["203.0.113.7", "no-such-host.invalid"])("names WEIR_HOST where that is %s", async (host) => {
  await expect(requireFree(host, [["WEIR_PORT", await freePort()]])).rejects.toThrow(
    new RegExp(`^Nothing can listen on ${host} \\(\\w+\\): set WEIR_HOST to an address of this machine.$`),
  );
});
