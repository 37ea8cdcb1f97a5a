import {
  cloudEvent,
  createWeirClient,
  dataOf,
  formatEventName,
  PublishError,
  weirErrorOf,
} from "../../sdk/index.ts";

// What runs in the browser: the test bundles it and calls it there.

/** What the page saw. */
export interface Seen {
  /** How many events were acknowledged. */
  readonly acknowledged: number;
  /** Outcome and reason of each that was not. */
  readonly refused: readonly string[];
  /** The payload of one of them as it was found again, byte by byte. */
  readonly found: readonly number[];
  /** Whether a search had it on its first page. */
  readonly isListed: boolean;
}

/** Publishes 1,000 events and one that is wrong, and finds one of them. */
export async function publishAndFind(baseUrl: string, token: string): Promise<Seen> {
  const weir = createWeirClient({ baseUrl, token: () => Promise.resolve(token) });
  const source = `/browser/${crypto.randomUUID()}`;
  const data = new Uint8Array([0x00, 0xff, 0xc3, 0x28]);
  const refused: string[] = [];
  let acknowledged = 0;
  {
    await using publisher = weir.publisher({
      onRefused: ({ outcome, reason }) => refused.push(`${outcome} ${reason}`),
    });
    for (let number = 0; number < 1_000; number++) {
      await publisher.ready();
      const subject = String(number % 50);
      const event = cloudEvent({ id: String(number), source, type: "t", time: new Date(), subject, data });
      void publisher.publish(event).then(() => (acknowledged += 1));
    }
    void publisher
      .publish(cloudEvent({ id: "old", source, type: "t", time: "2001-01-01T00:00:00Z" }))
      .catch(() => {});
  }
  const name = formatEventName(source, "999");
  for (;;) {
    try {
      const { event } = await weir.search.getEvent({ name });
      const { events } = await weir.search.searchEvents({ pageSize: 500 });
      const found = [...(dataOf(event?.cloudEvent) ?? [])];
      return { acknowledged, refused, found, isListed: events.some((each) => each.name === name) };
    } catch (error) {
      if (weirErrorOf(error)?.reason !== "EVENT_NOT_FOUND") throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

/** What becomes of an event from an origin that Weir does not know. */
export async function publishFromAfar(baseUrl: string, token: string): Promise<string> {
  const publisher = createWeirClient({ baseUrl, token }).publisher({ timeoutMs: 1_000 });
  try {
    await publisher.publish(cloudEvent({ id: "1", source: "/", type: "t", time: new Date() }));
    return "acknowledged";
  } catch (error) {
    return error instanceof PublishError ? `${error.outcome} ${error.reason}` : String(error);
  }
}
