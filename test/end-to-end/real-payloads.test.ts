import { setTimeout as sleep } from "node:timers/promises";
import hooks from "@octokit/webhooks-examples" with { type: "json" };
import { expect, test } from "vitest";
import {
  cloudEvent,
  createWeirClient,
  dataOf,
  type Event,
  type WeirClient,
  weirErrorOf,
} from "../../sdk/index.ts";
import { startWeir } from "../support/weir.ts";

const EVENTS = 10_000;
const CALLS_AT_ONCE = 32;

interface Payload {
  readonly type: string;
  readonly text: string;
}

/** Every example of every webhook that GitHub documents: 329 payloads of 58 types, 1 to 27 KB. */
function realPayloads(): readonly Payload[] {
  // Its types speak of a module with a default export; what is there is JSON.
  const definitions = hooks as unknown as readonly { name: string; examples: readonly unknown[] }[];
  return definitions.flatMap(({ name, examples }) =>
    examples.map((example) => ({ type: `com.github.${name}`, text: JSON.stringify(example) })),
  );
}

/** Runs `work` for every number below `count`, a bounded number of them at once. */
async function forEach(count: number, work: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let index = next++; index < count; index = next++) await work(index);
  };
  await Promise.all(Array.from({ length: CALLS_AT_ONCE }, lane));
}

/** Gets an event that is stored by now or will be soon. */
async function found(weir: WeirClient, name: string): Promise<Event> {
  const deadline = Date.now() + 60_000;
  for (;;) {
    try {
      return (await weir.search.getEvent({ name })).event!;
    } catch (error) {
      if (weirErrorOf(error)?.reason !== "EVENT_NOT_FOUND" || Date.now() > deadline) throw error;
      await sleep(50);
    }
  }
}

test(`${EVENTS} events of GitHub's real payloads post through the SDK and read back byte for byte`, async () => {
  await using platform = await startWeir({ workers: true });
  const weir = createWeirClient({ baseUrl: platform.baseUrl, token: await platform.token() });
  const payloads = realPayloads();
  expect(payloads.length).toBe(329);
  expect(new Set(payloads.map(({ type }) => type)).size).toBe(58);
  const payloadOf = (index: number): Payload => payloads[index % payloads.length]!;
  const time = new Date();
  const names: string[] = [];

  await forEach(EVENTS, async (index) => {
    const { type, text: data } = payloadOf(index);
    const { receipt } = await weir.ingest.createEvent({
      event: cloudEvent({
        id: String(index),
        source: `https://github.com/octo/${index % 50}`,
        type,
        time,
        datacontenttype: "application/json",
        data,
      }),
    });
    names[index] = receipt!.name;
  });
  expect(new Set(names).size).toBe(EVENTS);

  await forEach(EVENTS, async (index) => {
    const { cloudEvent: stored } = await found(weir, names[index]!);
    const { type, text } = payloadOf(index);
    expect(stored?.type).toBe(type);
    expect(Buffer.from(dataOf(stored)!).equals(Buffer.from(text))).toBe(true);
  });
}, 300_000);
