import { type KafkaMessage } from "#core/kafka-binary.ts";

/** A way in which events travel. Not every SDK knows every one. */
export type Mode =
  | "HTTP binary"
  | "HTTP structured JSON"
  | "HTTP structured protobuf"
  | "HTTP batch JSON"
  | "Kafka binary"
  | "Kafka structured JSON"
  | "Kafka structured protobuf";

/** A payload, as a program has it in hand. */
export type PeerData =
  | { readonly text: string }
  | { readonly json: Readonly<Record<string, unknown>> }
  | { readonly base64: string };

/**
 * An event as it goes into an SDK. Where the SDK has types for them, the extensions bytes, link, reference and instant
 * are given as bytes, a URI, a URI reference and a time, of which each is the canonical text.
 */
export interface PeerEvent {
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  /** null: none. */
  readonly data: PeerData | null;
}

/** Events to send by one message: several where the mode is a batch. */
export interface Sending {
  readonly mode: Mode;
  readonly events: readonly PeerEvent[];
}

/** What became of a message: the answer to a request, a record that is to be published, or why the SDK made neither. */
export type Sent =
  | { readonly status: number; readonly body: string }
  | { readonly record: KafkaMessage & { readonly key: Uint8Array | null } }
  | { readonly error: string };

/** A message with an event or a batch of them. A header's value is the bytes of its text over HTTP, too. */
export interface Message {
  readonly binding: "http" | "kafka";
  readonly headers: KafkaMessage["headers"];
  /** null over HTTP. */
  readonly key: Uint8Array | null;
  /** null on Kafka: a tombstone. */
  readonly body: Uint8Array | null;
}

/** What an SDK read from a message, its attributes as text; or why it could not. */
export type Read = { readonly events: readonly PeerEvent[] } | { readonly error: string };

/** Where to send to. */
export interface Destination {
  readonly baseUrl: string;
  readonly token: string;
}

/** Another project's CloudEvents SDK. */
export interface Peer {
  /** Sends each, one after the other, and answers in their order. What goes to Kafka comes back as records. */
  send(sendings: readonly Sending[], destination: Destination): Promise<readonly Sent[]>;
  /** Reads each, and answers in their order. */
  read(messages: readonly Message[]): Promise<readonly Read[]>;
}
