import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { inFormOf, KINDS, sampleEvents } from "./events.ts";
import { type Expectations, OF_GO, OF_JAVASCRIPT, OF_PYTHON } from "./expectations.ts";
import { javascript } from "./javascript.ts";
import { type Mode, type PeerEvent, type Read } from "./peer.ts";
import { openPlatform, type Platform } from "./platform.ts";
import { type Offer, offer, prepareGo, preparePython } from "./program.ts";

/** An SDK, the modes that it sends and reads, and what comes of it. */
interface Sdk {
  readonly name: string;
  readonly offer: Offer;
  readonly sends: readonly Mode[];
  readonly reads: readonly Mode[];
  readonly expectations: Expectations;
}

const [PYTHON, GO] = ["Python's cloudevents 2.2.0", "Go's sdk-go 2.16.2"];
const [python, go] = await Promise.all([offer(PYTHON, preparePython), offer(GO, prepareGo)]);
const COMMON: readonly Mode[] = ["HTTP binary", "HTTP structured JSON", "Kafka binary"];

const SDKS: readonly Sdk[] = [
  {
    name: "npm's cloudevents 10.0.0",
    offer: { peer: javascript },
    sends: [...COMMON, "Kafka structured JSON", "HTTP batch JSON"],
    reads: [...COMMON, "HTTP batch JSON"],
    expectations: OF_JAVASCRIPT,
  },
  {
    name: PYTHON,
    offer: python,
    sends: [...COMMON, "Kafka structured JSON"],
    reads: COMMON,
    expectations: OF_PYTHON,
  },
  {
    name: GO,
    offer: go,
    sends: [
      ...COMMON,
      "Kafka structured JSON",
      "HTTP batch JSON",
      "HTTP structured protobuf",
      "Kafka structured protobuf",
    ],
    reads: [...COMMON, "HTTP batch JSON", "HTTP structured protobuf"],
    expectations: OF_GO,
  },
];

let platform: Platform;
beforeAll(async () => {
  platform = await openPlatform();
});
afterAll(() => platform[Symbol.asyncDispose]());

for (const { name, offer: offered, sends, reads, expectations } of SDKS) {
  const why = "missing" in offered ? ` (skipped: ${offered.missing.split("\n", 1)[0]})` : "";

  describe.skipIf("missing" in offered)(`${name}${why}`, () => {
    const peer = "peer" in offered ? offered.peer : undefined;

    test.each(sends)("sends %s", async (mode) => {
      const samples = sampleEvents();
      const events = KINDS.map((kind) => samples[kind]);
      const isBatch = mode === "HTTP batch JSON";
      const sendings = isBatch ? [{ mode, events }] : events.map((event) => ({ mode, events: [event] }));
      const sent = await peer!.send(sendings, platform.destination);
      const outcomes = await platform.outcomes(sent, events);
      expect(byKind((_, index) => outcomes[index])).toEqual(
        byKind((kind) => expectations.sent(mode, kind, samples[kind])),
      );
    });

    test.each(reads)("reads %s", async (mode) => {
      const { events, messages } = platform.written(mode);
      const results = (await peer!.read(messages)).flatMap(singly);
      expect(byKind((kind, index) => seenIn(results[index], events[kind]))).toEqual(
        byKind((kind, index) => expectations.read(mode, events[kind], messages[index]?.key?.toString())),
      );
    });

    test("reads a dead letter", async () => {
      const { message, event } = await platform.deadLetter();
      const [result] = await peer!.read([message]);
      const expected = expectations.read("Kafka structured JSON", event, message.key?.toString());
      expect(seenIn(result, event)).toEqual(expected);
    });
  });
}

function byKind(value: (kind: (typeof KINDS)[number], index: number) => unknown): Record<string, unknown> {
  return Object.fromEntries(KINDS.map((kind, index) => [kind, value(kind, index)]));
}

/** The events of a message, each as if it were alone. */
function singly(result: Read): readonly Read[] {
  return "error" in result ? [result] : result.events.map((event) => ({ events: [event] }));
}

/** The event that was read, its data in the form that the event has in its sender's hand. */
function seenIn(result: Read | undefined, { data }: PeerEvent): unknown {
  if (result === undefined || "error" in result) return result?.error;
  const [event, ...more] = result.events;
  if (event === undefined || more.length > 0) return result.events;
  return { ...event, data: inFormOf(data, event.data) };
}
