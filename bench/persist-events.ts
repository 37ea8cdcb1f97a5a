import { encodedSize } from "#core/encoded-size.ts";
import { type CloudEvent, type StoredEvent } from "#core/event.ts";
import { parseTimestamp } from "#core/timestamp.ts";

import { createRandom } from "./random.ts";

/** Bytes of an event, as an encoded protobuf CloudEvent. */
const EVENT_BYTES = 600;
const EVENTS_A_SECOND = 500;

const TYPES = ["created", "paid", "packed", "shipped", "returned"].map((last) => `com.acme.order.${last}`);
const FIRST_NAMES = "Ada Alan Grace Linus Edsger Barbara Donald Margaret Dennis Radia Frances Niklaus".split(
  " ",
);
const LAST_NAMES = "Lovelace Turing Hopper Knuth Liskov Hamilton Ritchie Perlman Allen Wirth".split(" ");
const COUNTRIES = ["DE", "FR", "GB", "US", "NL"];
const WORDS =
  "please ring the bell twice and leave it at the door parcel arrived late customer moved refund gift urgent fragile call before delivery weekend morning evening office garden neighbour".split(
    " ",
  );

/** The partitions of the log that the events stand on. */
export const LOG_PARTITIONS: number = 12;

/**
 * Orders of a shop, each with an id of its own, {@link EVENT_BYTES} long, in the order in which they happened.
 *
 * @param first how many there were before: two calls that follow each other make one history.
 */
export function createEvents(first: number, count: number): readonly StoredEvent[] {
  const random = createRandom(first + 1);
  const pick = <T>(from: readonly T[]): T => from[random(from.length)]!;
  const hex = (digits: number): string =>
    Array.from({ length: digits }, () => random(16).toString(16)).join("");
  const uuid = (): string => `${hex(8)}-${hex(4)}-4${hex(3)}-a${hex(3)}-${hex(12)}`;
  const began = Date.UTC(2026, 10, 1);
  const encoder = new TextEncoder();
  return Array.from({ length: count }, (_, index) => {
    const at = first + index;
    const time = began + Math.floor((at * 1_000) / EVENTS_A_SECOND) + random(100);
    const payload = {
      orderId: uuid(),
      customer: { id: `c-${random(50_000)}`, name: `${pick(FIRST_NAMES)} ${pick(LAST_NAMES)}` },
      amount: random(100_000) / 100,
      currency: pick(["EUR", "USD", "GBP"]),
      status: pick(["open", "paid", "failed"]),
      items: 1 + random(5),
      express: random(2) === 0,
      weight: random(20_000),
      shipTo: { country: pick(COUNTRIES), zip: String(10_000 + random(80_000)) },
      note: Array.from({ length: 8 }, () => pick(WORDS)).join(" "),
      signature: "",
    };
    const make = (): CloudEvent => ({
      id: uuid(),
      source: `/acme/shops/${random(40)}`,
      type: pick(TYPES),
      subject: `customers/${payload.customer.id}`,
      time: parseTimestamp(new Date(time).toISOString()),
      datacontenttype: "application/json",
      dataschema: undefined,
      extensions: new Map([
        ["severitytext", pick(["INFO", "INFO", "WARN", "ERROR"])],
        ["tenant", `t${random(20)}`],
      ]),
      data: { bytes: encoder.encode(JSON.stringify(payload)), protoType: undefined },
    });
    const event = make();
    payload.signature = hex(EVENT_BYTES - encodedSize(event));
    return {
      event: { ...event, data: { bytes: encoder.encode(JSON.stringify(payload)), protoType: undefined } },
      acceptTime: time + 20,
      principal: "shop",
      traceParent: undefined,
      traceState: undefined,
      position: {
        topic: "weir.events.v1",
        partition: at % LOG_PARTITIONS,
        offset: BigInt(Math.floor(at / LOG_PARTITIONS)),
      },
    };
  });
}
