import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { type Receipt, Stage } from "#gen/weir/v1/event_pb.ts";

import { createWeirAdminClient } from "../../sdk/admin.ts";
import { createProxy } from "../postgres/fixture.ts";
import { createTestDatabase } from "../support/database.ts";
import { startWeir, type Weir } from "../support/weir.ts";
import { type Clients, createClients, PROTOCOLS } from "./clients.ts";
import { sketch, toMessage } from "./events.ts";
import { sql } from "./poison.ts";

let weir: Weir;
let token: string;
let clients: Clients;
beforeAll(async () => {
  weir = await startWeir({ workers: true, env: { WEIR_PROGRESS_WAITS: "300" } });
  token = await weir.token();
  clients = createClients(weir.baseUrl, token);
  // PostgreSQL refuses these, as it refuses what it cannot hold.
  await sql(
    weir,
    `create function refuse() returns trigger language plpgsql as $$ begin
       if new.type = 'refused' then raise exception 'not this one' using errcode = '22023'; end if; return new; end $$`,
  );
  await sql(
    weir,
    "create trigger refusing before insert on events.event for each row execute function refuse()",
  );
  // The first one waits for the worker to join its group.
  await create(sketch(), 60_000);
}, 90_000);
afterAll(() => weir[Symbol.asyncDispose]());

async function create(
  event = sketch(),
  timeoutMs = 20_000,
  { ingest } = clients,
): Promise<Receipt | undefined> {
  const request = { event: toMessage(event), waitFor: Stage.STORED };
  return (await ingest.createEvent(request, { timeoutMs })).receipt;
}

describe("a receipt that waits until the event is stored", () => {
  test.each(PROTOCOLS)("says so, and then it is found, by %s", async (protocol) => {
    const own = createClients(weir.baseUrl, token, protocol);
    const receipt = await create(sketch(), 20_000, own);
    expect(receipt).toMatchObject({ stage: Stage.STORED, deadLetter: "" });
    const { event } = await own.search.getEvent({ name: receipt!.name });
    expect(event?.position).toEqual(receipt?.position);
  });

  test("says so of a repeat, which is stored once", async () => {
    const event = sketch();
    expect((await create(event))?.stage).toBe(Stage.STORED);
    expect((await create(event))?.stage).toBe(Stage.STORED);
  });

  test("names the dead letter that the event has become", async () => {
    const receipt = await create(sketch({ type: "refused" }));
    expect(receipt?.stage).toBe(Stage.DEAD_LETTERED);
    const { deadLetters } = createWeirAdminClient({ baseUrl: weir.baseUrl, token });
    const { deadLetter } = await deadLetters.getDeadLetter({ name: receipt!.deadLetter });
    expect(deadLetter).toMatchObject({
      name: receipt!.deadLetter,
      reason: "UNPERSISTABLE",
      origin: { value: { position: receipt!.position } },
    });
  });

  test("says of each event of a batch what became of it", async () => {
    const events = [sketch(), sketch({ type: "refused" }), sketch({ id: "" }), sketch()].map(toMessage);
    const { results } = await clients.ingest.batchCreateEvents({ events, waitFor: Stage.STORED });
    const stages = results.map(({ outcome }) =>
      outcome.case === "receipt" ? outcome.value.stage : outcome.case,
    );
    expect(stages).toEqual([Stage.STORED, Stage.DEAD_LETTERED, "error", Stage.STORED]);
  });

  test("comes within a tenth of a second under light load, nearly always", async () => {
    const times: number[] = [];
    for (let count = 0; count < 200; count += 1) {
      const began = performance.now();
      expect((await create())?.stage).toBe(Stage.STORED);
      times.push(performance.now() - began);
    }
    times.sort((a, b) => a - b);
    // The target is 100 ms at p99 (npm run bench -- tail); here the machine is shared with all that the tests run.
    expect(times[100]).toBeLessThan(100);
  }, 60_000);

  test("is given at once, as accepted, where as many are waited for as may be", async () => {
    // No worker: what waits goes on waiting.
    await using idle = await startWeir({ env: { WEIR_PROGRESS_WAITS: "2" } });
    const own = createClients(idle.baseUrl, await idle.token());
    const waiting = [1, 2].map(() => create(sketch(), 20_000, own));
    const metric = async (name: string): Promise<number> => {
      const page = await (await fetch(`${idle.baseUrl}/metrics`)).text();
      return Number(
        page
          .split("\n")
          .find((line) => line.startsWith(`${name} `))
          ?.slice(name.length),
      );
    };
    await expect.poll(() => metric("weir_ingest_waiting")).toBe(2);
    const began = performance.now();
    expect((await create(sketch(), 20_000, own))?.stage).toBe(Stage.ACCEPTED);
    expect(performance.now() - began).toBeLessThan(5_000);
    expect(await metric('weir_ingest_wait_duration_count{outcome="capacity"}')).toBe(1);
    // And those that wait are told what there is when the server stops.
    void idle.server.stop();
    expect((await Promise.all(waiting)).map((receipt) => receipt?.stage)).toEqual([
      Stage.ACCEPTED,
      Stage.ACCEPTED,
    ]);
  }, 60_000);
});

test.each(PROTOCOLS)(
  "at its deadline a receipt says that the event is accepted, by %s",
  async (protocol) => {
    await using idle = await startWeir();
    const own = createClients(idle.baseUrl, await idle.token(), protocol);
    const receipt = await create(sketch(), 1_000, own);
    expect(receipt?.stage).toBe(Stage.ACCEPTED);
    expect(receipt?.position?.offset).toBe(0n);
  },
  60_000,
);

test("without PostgreSQL a receipt says that the event is accepted, and when it is back, stored", async () => {
  await using database = await createTestDatabase();
  await using proxy = await createProxy(database.url);
  await using away = await startWeir({ databaseUrl: proxy.url, workers: true });
  const own = createClients(away.baseUrl, await away.token());
  expect((await create(sketch(), 60_000, own))?.stage).toBe(Stage.STORED);
  await proxy.cut();
  expect((await create(sketch(), 2_000, own))?.stage).toBe(Stage.ACCEPTED);
  const waiting = create(sketch(), 60_000, own);
  await proxy.restore();
  expect((await waiting)?.stage).toBe(Stage.STORED);
}, 120_000);
