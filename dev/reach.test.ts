import { once } from "node:events";
import { createServer } from "node:net";
import { expect, it } from "vitest";

import { freePort } from "./ports.ts";
import { postgresAddress, untilReached } from "./reach.ts";

it("says what it waits for, and by which setting, until that is there", async () => {
  const port = await freePort();
  const said: string[] = [];
  const service = {
    name: "PostgreSQL",
    setting: "WEIR_DATABASE_URL",
    addresses: [`127.0.0.1:${port}`],
  } as const;
  const server = createServer();
  await untilReached(service, {
    say: (line) => {
      said.push(line);
      server.listen(port, "127.0.0.1");
    },
  });
  expect(said).toEqual([`waiting for PostgreSQL at 127.0.0.1:${port} (WEIR_DATABASE_URL)`]);
  await untilReached(service, { say: (line) => said.push(line) });
  expect(said).toHaveLength(1);
  server.close();
  await once(server, "close");
});

it("gives up with the setting to change", async () => {
  const addresses = [`127.0.0.1:${await freePort()}`, "no-such-host.invalid:9092"];
  const waiting = untilReached(
    { name: "Kafka", setting: "WEIR_KAFKA_BROKERS", addresses },
    { say: () => {}, timeoutMs: 100 },
  );
  await expect(waiting).rejects.toThrow(
    /^Kafka at 127.0.0.1:\d+, no-such-host.invalid:9092 \(WEIR_KAFKA_BROKERS\) was not reached within 0.1 s: ECONN/,
  );
});

it.each([
  ["postgres://weir:secret@db.example/weir", "db.example:5432"],
  ["postgresql://[::1]:5433/weir", "[::1]:5433"],
  ["postgres:///weir?host=/run/postgresql", undefined],
  ["postgres://weir@%2Frun%2Fpostgresql/weir", undefined],
])("finds the address in %s", (url, address) => {
  expect(postgresAddress(url)).toBe(address);
});
