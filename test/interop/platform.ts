import { setTimeout as sleep } from "node:timers/promises";
import type { Message as ProducerMessage, Producer } from "kafkajs";

import { attributesOf } from "#core/attributes.ts";
import { encodeBatchJson } from "#core/batch-json.ts";
import { decodeDeadLetter } from "#core/dead-letter.ts";
import { type CloudEvent } from "#core/event.ts";
import { encodeHttpBinary } from "#core/http-binary.ts";
import { encodeKafkaBinary } from "#core/kafka-binary.ts";
import { decodeStructuredJson, encodeStructuredJson } from "#core/structured-json.ts";
import { encodeStructuredProtobuf } from "#core/structured-protobuf.ts";
import { kafkajs } from "#kafka/kafkajs/library.ts";
import { type ReceivedRecord } from "#kafka/ports.ts";

import {
  attributeOf,
  createWeirClient,
  dataOf,
  type Event,
  formatEventName,
  type WeirClient,
  weirErrorOf,
} from "../../sdk/index.ts";
import { httpRefusalOf } from "../server/clients.ts";
import { readTopic } from "../support/topic.ts";
import { startWeir, type Weir } from "../support/weir.ts";
import {
  fromAttributes,
  idOf,
  inFormOf,
  type Kind,
  KINDS,
  sampleEvents,
  type Samples,
  SOURCE,
  toCore,
} from "./events.ts";
import { type Destination, type Message, type Mode, type PeerEvent, type Sent } from "./peer.ts";

/** What became of an event that was sent: as it is stored, or in a few words why it is not. */
export type Outcome = PeerEvent | string;

/** A Weir with workers, and everything that the tests ask of it. */
export interface Platform extends AsyncDisposable {
  readonly destination: Destination;
  /** Publishes what is a record, waits until everything that was sent is accounted for, and tells what became of it. */
  outcomes(sent: readonly Sent[], events: readonly PeerEvent[]): Promise<readonly Outcome[]>;
  /** Sample events, and the messages that Weir makes of them: one for each of KINDS, or one batch. */
  written(mode: Mode): { readonly events: Samples; readonly messages: readonly Message[] };
  /** A record that Weir could not read, as it keeps it, and the letter as an event. */
  deadLetter(): Promise<{ readonly message: Message; readonly event: PeerEvent }>;
}

/** Events are stored within this time, in milliseconds. */
const PATIENCE_MS = 20_000;

/** Starts it and gives it the sample events. */
export async function openPlatform(): Promise<Platform> {
  await using stack = new AsyncDisposableStack();
  const weir = stack.use(await startWeir({ workers: true }));
  const token = await weir.token();
  const destination = { baseUrl: weir.baseUrl, token };
  const client = createWeirClient(destination);
  const kafka = new kafkajs.Kafka({ brokers: weir.brokers.split(","), logLevel: kafkajs.logLevel.NOTHING });
  const producer = kafka.producer();
  await producer.connect();
  stack.defer(() => producer.disconnect());

  const publish = (record: RecordToPublish): Promise<string> => publishTo(producer, weir.topic, record);
  /** Records of a partition are worked off in order, so all those before this one are accounted for when it is stored. */
  const accountedFor = async (): Promise<void> => {
    const event = toCore(sampleEvents()["no data"]);
    await publish({ ...encodeKafkaBinary(event), key: null });
    await stored(client, event.id, true);
  };
  const outcomes: Platform["outcomes"] = async (sent, events) => {
    const positions = new Map<string, string>();
    for (const [index, one] of sent.entries())
      if ("record" in one) positions.set(idOf(events[index]!), await publish(one.record));
    if (positions.size > 0) await accountedFor();
    const found: (Outcome | undefined)[] = [];
    for (const [index, event] of events.entries()) {
      const id = idOf(event);
      // A batch is one message.
      const refusal = await refusalIn(sent[Math.min(index, sent.length - 1)]!);
      found.push(refusal ?? toOutcome(await stored(client, id, !positions.has(id)), event));
    }
    if (!found.includes(undefined)) return found as Outcome[];
    const letters = await lettersByPosition(weir);
    return found.map(
      (outcome, index) => outcome ?? letters.get(positions.get(idOf(events[index]!))!) ?? "lost",
    );
  };

  const samples = await publishSamples(weir, token);
  const owned = stack.move();
  return {
    destination,
    outcomes,
    written: (mode) => {
      const all = KINDS.map((kind) => samples[kind]);
      const messages = mode === "HTTP batch JSON" ? [toBatch(all)] : all.map((one) => toMessage(mode, one));
      return { events: eachKind((kind) => samples[kind].event), messages };
    },
    deadLetter: async () => {
      const position = await publish({ headers: [], key: null, value: Buffer.from("no event") });
      await accountedFor();
      const letters = await readTopic(weir.brokers, weir.deadLetterTopic);
      const letter = letters.find(({ key }) => key?.toString().endsWith(`/${position}`));
      const { headers, key, value: body } = letter!;
      const decoded = decodeStructuredJson(body!);
      if (!decoded.ok) throw new Error("Weir cannot read its own dead letter.");
      const { value: event } = decoded;
      const json = JSON.parse(Buffer.from(event.data!.bytes).toString()) as Record<string, unknown>;
      const attributes = fromAttributes(attributesOf(event));
      return { message: { binding: "kafka", headers, key, body }, event: { attributes, data: { json } } };
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

interface Sample {
  readonly event: PeerEvent;
  readonly core: CloudEvent;
  readonly record: ReceivedRecord;
}

async function publishSamples(weir: Weir, token: string): Promise<Readonly<Record<Kind, Sample>>> {
  const events = sampleEvents();
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/cloudevents+json" };
  for (const kind of KINDS) {
    const body = Buffer.from(encodeStructuredJson(toCore(events[kind])));
    const response = await fetch(`${weir.baseUrl}/v1/events`, { method: "POST", headers, body });
    if (!response.ok) throw new Error(await response.text());
  }
  const records = await readTopic(weir.brokers, weir.topic);
  return eachKind((kind) => {
    const event = events[kind];
    const record = records.find(({ headers: all }) => textIn(all, "ce_id") === idOf(event))!;
    return { event, core: toCore(event), record };
  });
}

function eachKind<T>(value: (kind: Kind) => T): Readonly<Record<Kind, T>> {
  return Object.fromEntries(KINDS.map((kind) => [kind, value(kind)])) as Record<Kind, T>;
}

function toMessage(mode: Mode, { core, record }: Sample): Message {
  switch (mode) {
    case "Kafka binary":
      return { binding: "kafka", headers: record.headers, key: record.key, body: record.value };
    case "HTTP binary": {
      const { headers, body } = encodeHttpBinary(core);
      return overHttp(headers, body);
    }
    case "HTTP structured JSON":
      return overHttp([["content-type", "application/cloudevents+json"]], encodeStructuredJson(core));
    case "HTTP structured protobuf":
      return overHttp([["content-type", "application/cloudevents+protobuf"]], encodeStructuredProtobuf(core));
    default:
      throw new Error(`Weir writes no ${mode}.`);
  }
}

function toBatch(samples: readonly Sample[]): Message {
  const body = encodeBatchJson(samples.map(({ core }) => core));
  return overHttp([["content-type", "application/cloudevents-batch+json"]], body);
}

function overHttp(headers: readonly (readonly [name: string, value: string])[], body: Uint8Array): Message {
  return {
    binding: "http",
    headers: headers.map(([name, value]) => [name, Buffer.from(value)]),
    key: null,
    body,
  };
}

type RecordToPublish = Extract<Sent, { record: unknown }>["record"];

/** Answers where it stands. */
async function publishTo(producer: Producer, topic: string, record: RecordToPublish): Promise<string> {
  // kafka/kafkajs/library.ts takes headers as the list that they are on the wire.
  const message = { ...record, partition: 0 } as unknown as ProducerMessage;
  const [answer] = await producer.send({ topic, messages: [message] });
  return `0/${answer!.baseOffset}`;
}

/** The event once it is stored, or now where it need not be there. */
async function stored(client: WeirClient, id: string, isAwaited: boolean): Promise<Event | undefined> {
  const deadline = Date.now() + PATIENCE_MS;
  const name = formatEventName(SOURCE, id);
  for (;;) {
    try {
      return (await client.search.getEvent({ name })).event;
    } catch (error) {
      if (weirErrorOf(error)?.reason !== "EVENT_NOT_FOUND" || Date.now() > deadline) throw error;
      if (!isAwaited) return undefined;
      await sleep(20);
    }
  }
}

function toOutcome(found: Event | undefined, event: PeerEvent): Outcome | undefined {
  if (found === undefined) return undefined;
  const { cloudEvent, timeText } = found;
  const { id, source, type, specVersion: specversion, attributes } = cloudEvent!;
  const others = Object.keys(attributes).map((name) => [name, attributeOf(cloudEvent, name)!] as const);
  const data = dataOf(cloudEvent);
  return {
    attributes: { ...fromAttributes(others), id, source, type, specversion, time: timeText },
    data: inFormOf(event.data, data ? { base64: Buffer.from(data).toString("base64") } : null),
  };
}

async function refusalIn(sent: Sent): Promise<string | undefined> {
  if ("error" in sent) return sent.error;
  if ("record" in sent || sent.status === 200) return undefined;
  const { reason } = await httpRefusalOf(new Response(sent.body, { status: sent.status }));
  return `refused: ${reason}`;
}

/** Why records are dead letters, by where they stand. */
async function lettersByPosition(weir: Weir): Promise<ReadonlyMap<string, string>> {
  const letters = await readTopic(weir.brokers, weir.deadLetterTopic);
  return new Map(
    letters.map(({ value }) => {
      const letter = decodeDeadLetter(value!);
      if (!letter.ok) throw new Error("Weir cannot read its own dead letter.");
      const { position, reason } = letter.value;
      return [`${position.partition}/${position.offset}`, `dead letter: ${reason}`];
    }),
  );
}

function textIn(headers: ReceivedRecord["headers"], wanted: string): string | undefined {
  return headers.find(([name]) => name === wanted)?.[1]?.toString();
}
