import {
  CloudEvent,
  type CloudEventV1,
  emitterFor,
  type Headers,
  HTTP,
  httpTransport,
  Kafka,
  type KafkaMessage,
  Mode as SdkMode,
} from "cloudevents";

import {
  type Destination,
  type Message,
  type Peer,
  type PeerData,
  type PeerEvent,
  type Read,
  type Sending,
  type Sent,
} from "./peer.ts";

/** npm's `cloudevents`. It has a binding for MQTT too, which Weir does not speak. */
export const javascript: Peer = {
  send: (sendings, destination) => inOrder(sendings, (sending) => send(sending, destination)),
  read: (messages) => inOrder(messages, read),
};

async function inOrder<T, R>(
  items: readonly T[],
  work: (item: T) => R | Promise<R>,
): Promise<readonly (R | { readonly error: string })[]> {
  const results: (R | { readonly error: string })[] = [];
  for (const item of items) {
    try {
      results.push(await work(item));
    } catch (error) {
      results.push({ error: String(error) });
    }
  }
  return results;
}

async function send({ mode, events }: Sending, { baseUrl, token }: Destination): Promise<Sent> {
  const [event, ...others] = events.map(toEvent) as [CloudEvent<unknown>, ...CloudEvent<unknown>[]];
  const url = `${baseUrl}/v1/events`;
  const headers = { authorization: `Bearer ${token}` };
  switch (mode) {
    case "HTTP binary":
      return posted(await emitterFor(httpTransport(url), { mode: SdkMode.BINARY })(event, { headers }));
    case "HTTP structured JSON":
      return posted(await emitterFor(httpTransport(url), { mode: SdkMode.STRUCTURED })(event, { headers }));
    case "HTTP batch JSON": {
      // The package reads batches and writes none but as the JSON of its events.
      const type = { "content-type": "application/cloudevents-batch+json" };
      const body = JSON.stringify([event, ...others]);
      const response = await fetch(`${url}:batchCreate`, {
        method: "POST",
        headers: { ...headers, ...type },
        body,
      });
      return { status: response.status, body: await response.text() };
    }
    case "Kafka binary":
      return { record: toRecord(Kafka.binary(event)) };
    case "Kafka structured JSON":
      return { record: toRecord(Kafka.structured(event)) };
    default:
      return { error: `The package has no ${mode}.` };
  }
}

/** httpTransport tells of no status; a refusal has a code. */
function posted(answer: unknown): Sent {
  const { body } = answer as { readonly body: string };
  const { code } = JSON.parse(body) as { readonly code?: string };
  return { status: code === undefined ? 200 : 400, body };
}

function toEvent({ attributes, data }: PeerEvent): CloudEvent<unknown> {
  return new CloudEvent<unknown>({ ...attributes, ...(data && { data: toValue(data) }) });
}

function toValue(data: PeerData): unknown {
  if ("text" in data) return data.text;
  return "json" in data ? data.json : new Uint8Array(Buffer.from(data.base64, "base64"));
}

/** As it has to be made for kafkajs, which takes no header without a value, no number and no boolean. */
function toRecord({
  headers,
  key,
  value,
}: KafkaMessage<unknown>): Extract<Sent, { record: unknown }>["record"] {
  const given = Object.entries(headers).filter(([, text]) => text !== undefined);
  return {
    headers: given.map(([name, text]) => [name, Buffer.from(String(text))]),
    key: key === undefined ? null : Buffer.from(key as string),
    value: toBytes(value),
  };
}

/** What goes as it is to a Kafka client, which takes text and bytes; objects are the caller's to serialize. */
function toBytes(value: unknown): Uint8Array | null {
  if (value === undefined || value === null) return null;
  if (value instanceof Uint8Array) return value;
  return Buffer.from(typeof value === "string" ? value : JSON.stringify(value));
}

function read({ binding, headers, key, body }: Message): Read {
  const texts = Object.fromEntries(
    headers.map(([name, value]) => [name, value === null ? undefined : Buffer.from(value).toString()]),
  );
  const isText = /json|text/.test(texts["content-type"] ?? "");
  const bytes = body && Buffer.from(body);
  const content = isText ? bytes?.toString() : bytes;
  const found =
    binding === "http"
      ? // As servers do, which have no body where none was sent.
        HTTP.toEvent({ headers: texts, body: bytes?.length === 0 ? undefined : content })
      : Kafka.toEvent(toKafkaMessage(texts, key, content));
  return { events: [found].flat().map(seen) };
}

function toKafkaMessage(headers: Headers, key: Uint8Array | null, value: unknown): KafkaMessage {
  const message = { headers, key: key === null ? "" : Buffer.from(key).toString(), value };
  return { ...message, value: value as string, body: value };
}

function seen(event: CloudEventV1<unknown>): PeerEvent {
  const { data, data_base64: base64, ...attributes } = event;
  const given = Object.entries(attributes).filter(([, value]) => value !== undefined);
  return {
    attributes: Object.fromEntries(given.map(([name, value]) => [name, String(value)])),
    data: toData(data, base64),
  };
}

function toData(data: unknown, base64: string | undefined): PeerData | null {
  if (base64 !== undefined) return { base64 };
  if (data === undefined || data === null) return null;
  return typeof data === "string" ? { text: data } : { json: data as Record<string, unknown> };
}
