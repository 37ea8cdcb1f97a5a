import { Code } from "@connectrpc/connect";
import { expect, test } from "vitest";

import { createClients, refusalOf } from "./clients.ts";
import { sketch, toMessage } from "./events.ts";
import { journeyOf, placeOf } from "./journey.ts";
import { publish, sql, usePoisonedBroker } from "./poison.ts";
import { startWeir } from "../support/weir.ts";

const soon = { timeout: 20_000, interval: 50 };
const { suite, broker } = usePoisonedBroker();

async function send(id: string): Promise<{ topic: string; partition: number; offset: bigint }> {
  const event = toMessage(sketch({ source: "/away", id }));
  const { receipt } = await suite.clients.ingest.createEvent({ event });
  const { topic, partition, offset } = receipt!.position!;
  return { topic, partition, offset };
}

test("with Kafka away PostgreSQL tells what it knows, and the answer what could not be found out", async () => {
  const stored = await send("stored");
  const name = "events/%2Faway:stored";
  const linesOf = async (): Promise<readonly string[]> =>
    journeyOf(suite.clients, { name }).then(
      ({ lines }) => lines,
      () => [],
    );
  await expect.poll(linesOf, soon).toHaveLength(2);
  const partition = (stored.partition + 1) % 3;
  const [bad] = await publish(suite.weir, [{ partition, value: Buffer.from("no event") }]);
  await suite.untilListed(1);
  const next = { ...stored, offset: stored.offset + 1n };
  // Its repeat, as the store has it: when that was accepted the log alone could tell.
  await sql(
    suite.weir,
    `insert into events.duplicate (topic, partition, "offset", source, id, occurred_at, differs)
     select topic, partition, "offset" + 1, source, id, occurred_at, false from events.event where id = 'stored'`,
  );
  const beyond = { ...stored, offset: stored.offset + 1_000n };
  for (const outage of [() => void (broker().proxy.mode = "stall"), () => broker().kill()]) {
    await outage();
    const began = performance.now();
    expect((await journeyOf(suite.clients, { name, position: stored })).unknown).toEqual([]);
    const repeated = await journeyOf(suite.clients, { name, position: next });
    expect(repeated.lines).toEqual([
      `accepted ${placeOf(stored)} from alice`,
      `stored ${placeOf(stored)}`,
      `duplicate ${placeOf(next)}`,
    ]);
    expect(repeated.unknown).toEqual([
      expect.stringMatching(/^Whether the log has the record at .*: Kafka /) as string,
    ]);
    const poison = { topic: suite.weir.topic, partition, offset: bad! };
    expect((await journeyOf(suite.clients, { name: "events/a:b", position: poison })).lines).toEqual([
      `accepted ${placeOf(poison)} from `,
      `dead-lettered ${placeOf(poison)} attempt 0`,
    ]);
    const unseen = { name: "events/%2Faway:none" };
    const refusal = await refusalOf(suite.clients.search.getEventJourney(unseen));
    expect(refusal).toMatchObject({ code: Code.NotFound, reason: "EVENT_NOT_FOUND" });
    expect(refusal.metadata["in_flight"]).toBeUndefined();
    expect(refusal.message).toContain("is not known: Kafka did not say");
    // Only the log could tell of this one, so nothing is said of it.
    const only = await refusalOf(suite.clients.search.getEventJourney({ ...unseen, position: beyond }));
    expect(only).toMatchObject({ code: Code.Unavailable, reason: "KAFKA_UNAVAILABLE" });
    expect(only.retryAfterMs).toBeGreaterThan(0);
    // Five questions, three of which ask Kafka, for 5 s each at most.
    expect(performance.now() - began).toBeLessThan(18_000);
  }
}, 120_000);

test("with PostgreSQL away it is unavailable, as every read is", async () => {
  await using weir = await startWeir({
    databaseUrl: "postgres://nobody@127.0.0.1:1/none",
    until: "listening",
  });
  const { search } = createClients(weir.baseUrl, await weir.token());
  const refusal = await refusalOf(search.getEventJourney({ name: "events/a:b" }));
  expect(refusal).toMatchObject({ code: Code.Unavailable, reason: "DATABASE_UNAVAILABLE" });
}, 60_000);
