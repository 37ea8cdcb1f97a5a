import { encodedSize } from "#core/encoded-size.ts";
import { type CloudEvent, type StoredEvent } from "#core/event.ts";

import { createRandom } from "./random.ts";

/** Raised with every change of what is made here, so that what was made before is made anew. */
export const GENERATOR_VERSION = 1;

/** The events happened in the {@link DAYS} days before this, in milliseconds since 1970: the first moment of a month. */
export const END: number = Date.UTC(2026, 11, 1);
/** How many days the events are of. */
export const DAYS = 90;
/** How many events are made at once, from a seed of their own. */
export const CHUNK = 10_000;
/** The topic that they stand on. */
export const TOPIC = "weir.events.v1";
/** The consumer group that has stored them. */
export const GROUP = "weir.persist.v1";
/** The partitions of the topic. */
export const LOG_PARTITIONS = 12;

/** Bytes of an event, as an encoded protobuf CloudEvent. */
const EVENT_BYTES = 600;
const DAY_MS = 86_400_000;

const SUBJECTS = "order payment shipment customer cart invoice sensor refund stock session".split(" ");
const VERBS = "created updated completed failed deleted".split(" ");
const CURRENCIES = ["EUR", "USD", "GBP", "CHF", "SEK"];
const COUNTRIES = "DE FR GB US NL SE CH PL IT ES AT DK".split(" ");
const CITIES = "berlin paris london austin utrecht malmo basel gdansk turin bilbao graz aarhus".split(" ");
const NAMES =
  "Ada Alan Grace Linus Edsger Barbara Donald Margaret Dennis Radia Frances Niklaus Tony Joan Ken".split(" ");
const TAGS =
  "eu web mobile batch retry express gift bulk trial partner vip beta legacy audit night export priority manual import review".split(
    " ",
  );
const ONSETS = "b c d f g h k l m n p r s t v w br dr gr kr pl st tr sk fl".split(" ");
const NUCLEI = ["a", "e", "i", "o", "u", "ou", "or", "en"];
const VOCABULARY_SIZE = 30_000;

/** Words of two to four syllables, each once; the first are the most frequent. */
export const VOCABULARY: readonly string[] = createVocabulary();

/** The types, the most frequent first. */
export const TYPES: readonly string[] = VERBS.flatMap((verb) =>
  SUBJECTS.map((subject) => `com.acme.${subject}.${verb}`),
);

/** The sources, the most frequent first. */
export const SOURCES: readonly string[] = Array.from(
  { length: 300 },
  (_, index) => `/acme/${CITIES[index % CITIES.length]}/${["shop", "till", "depot"][index % 3]}-${index}`,
);

/** How many tenants there are: `t0` is the most frequent. */
export const TENANTS = 400;

/** One event in so many has the path `data.audit.waiver`. */
export const WAIVER_EVERY = 100_000;
/** One event in so many has a word of its own, {@link needleWord}. */
export const NEEDLE_EVERY = 250_000;

/** The word that the event at this place has, a multiple of {@link NEEDLE_EVERY}, and no other. */
export function needleWord(place: number): string {
  return `zyx${VOCABULARY[Math.floor(place / NEEDLE_EVERY)]}xyz`;
}

/** Nearly always among the first of a list: the n-th is about n times as rare as the first (Zipf's law). */
function zipf(random: (below: number) => number, length: number): number {
  return Math.floor((length + 1) ** (random(0x40000000) / 0x40000000)) - 1;
}

function createVocabulary(): readonly string[] {
  const random = createRandom(7);
  const words = new Set<string>();
  while (words.size < VOCABULARY_SIZE) {
    const syllables = 2 + random(3);
    let word = "";
    for (let each = 0; each < syllables; each++)
      word += ONSETS[random(ONSETS.length)]! + NUCLEI[random(NUCLEI.length)]!;
    words.add(word);
  }
  return [...words];
}

const HEX4 = Array.from({ length: 0x10000 }, (_, number) => number.toString(16).padStart(4, "0"));

/** Random values for one chunk. */
interface Source {
  readonly random: (below: number) => number;
  readonly pick: <T>(from: readonly T[]) => T;
  readonly zipf: (length: number) => number;
  readonly uuid: () => string;
  /** An amount of money from 1 to 10,000, small ones more often. */
  readonly amount: () => number;
  readonly words: (count: number) => string;
}

function createSource(seed: number): Source {
  const random = createRandom(seed);
  const hex4 = (): string => HEX4[random(0x10000)]!;
  const rank = (length: number): number => zipf(random, length);
  const pick = <T>(from: readonly T[]): T => from[random(from.length)]!;
  return {
    random,
    pick,
    zipf: rank,
    uuid: () =>
      `${hex4()}${hex4()}-${hex4()}-4${hex4().slice(1)}-a${hex4().slice(1)}-${hex4()}${hex4()}${hex4()}`,
    amount: () => Math.round(10 ** (2 + (4 * random(1_000_000)) / 1_000_000)) / 100,
    words: (count) => {
      let text = VOCABULARY[rank(VOCABULARY_SIZE)]!;
      for (let each = 1; each < count; each++) text += ` ${VOCABULARY[rank(VOCABULARY_SIZE)]!}`;
      return text;
    },
  };
}

type Payload = Record<string, unknown>;

/** Payloads by what the type is about; others have that of a customer. */
const SHAPES: Readonly<Record<string, (source: Source, customer: string) => Payload>> = {
  order: ({ random, pick, zipf: rank, uuid, amount }, customer) => ({
    orderId: uuid(),
    customer: { id: customer, name: `${pick(NAMES)} ${pick(NAMES)}` },
    amount: amount(),
    currency: pick(CURRENCIES),
    status: pick(["open", "paid", "failed"]),
    items: Array.from({ length: 1 + random(2) }, () => ({ sku: `SKU-${rank(20_000)}`, qty: 1 + random(9) })),
    shipTo: { country: pick(COUNTRIES), zip: String(10_000 + random(80_000)) },
  }),
  payment: ({ random, pick, uuid, amount }) => ({
    orderId: uuid(),
    amount: amount(),
    currency: pick(CURRENCIES),
    card: { brand: pick(["visa", "master", "amex"]), last4: String(1_000 + random(9_000)) },
    risk: { score: random(1_000), rules: [pick(["velocity", "country", "amount"]), pick(TAGS)] },
    approved: random(20) > 0,
  }),
  shipment: ({ random, pick, uuid }) => ({
    orderId: uuid(),
    carrier: pick(["dhl", "ups", "dpd", "gls"]),
    weight: random(20_000),
    stops: Array.from({ length: 1 + random(3) }, () => ({ city: pick(CITIES), hours: random(72) })),
    signature: null,
  }),
  sensor: ({ random, pick }) => ({
    sensor: `s-${random(5_000)}`,
    values: [random(1_000) / 10, random(1_000) / 10, random(1_000) / 10],
    unit: pick(["C", "hPa", "lux"]),
    weight: random(20_000),
    online: true,
  }),
  customer: ({ random, pick, uuid }, customer) => ({
    customerId: customer,
    session: uuid(),
    device: { os: pick(["ios", "android", "windows", "linux"]), version: 1 + random(30) },
    ip: `10.${random(256)}.${random(256)}.${random(256)}`,
  }),
};

/**
 * The events of a chunk, in about the order in which they happened: `total` of them in the time until {@link END}. Chunks beyond
 * those happen later, as fast.
 */
export function createChunk(chunk: number, total: number): readonly StoredEvent[] {
  const source = createSource(chunk + 1);
  const first = chunk * CHUNK;
  const length = first < total ? Math.min(CHUNK, total - first) : CHUNK;
  return Array.from({ length }, (_, index) => createEvent(source, first + index, total));
}

function createEvent(source: Source, place: number, total: number): StoredEvent {
  const { random, pick, zipf: rank, words } = source;
  const acceptTime = END - DAYS * DAY_MS + Math.floor((place * DAYS * DAY_MS) / total) + 50;
  // One in a hundred comes hours late, of the last days too.
  const late = random(100) === 0 ? random(6 * 3_600_000) : random(2_000);
  const time = Math.max(acceptTime - 20 - late, END - DAYS * DAY_MS);
  const type = TYPES[rank(TYPES.length)]!;
  const customer = `c-${rank(200_000)}`;
  const payload = (SHAPES[type.split(".")[2]!] ?? SHAPES["customer"]!)(source, customer);
  if (place % WAIVER_EVERY === WAIVER_EVERY - 1)
    payload["audit"] = { waiver: `w-${place}`, level: random(10) };
  payload["note"] = `${words(3)}${place % NEEDLE_EVERY === 0 ? ` ${needleWord(place)}` : ""}`;
  const extensions: [string, string][] = [["region", pick(["eu-1", "eu-2", "us-1", "ap-1"])]];
  const severity = random(1_000);
  if (severity < 900) {
    const name =
      severity < 3
        ? "FATAL"
        : severity < 40
          ? "ERROR"
          : severity < 120
            ? "WARN"
            : severity < 850
              ? "INFO"
              : "DEBUG";
    extensions.push(["severitytext", name]);
  }
  const tag = TAGS[rank(TAGS.length)]!;
  if (random(10_000) === 0) extensions.push(["tags", `${tag},quarantine`]);
  else if (random(3) > 0) extensions.push(["tags", random(2) === 0 ? tag : `${tag},${pick(TAGS)}`]);
  extensions.push(["tenant", `t${rank(TENANTS)}`]);
  const body = JSON.stringify(payload);
  const event = (bytes: Uint8Array): CloudEvent => ({
    id: "",
    source: SOURCES[rank(SOURCES.length)]!,
    type,
    subject: `customers/${customer}`,
    time: timestamp(time),
    datacontenttype: "application/json",
    dataschema: undefined,
    extensions: new Map(extensions),
    data: { bytes, protoType: undefined },
  });
  const id = source.uuid();
  const made = { ...event(Buffer.from(body)), id };
  return {
    event: {
      ...made,
      data: { bytes: Buffer.from(fill(body, EVENT_BYTES - encodedSize(made), source)), protoType: undefined },
    },
    acceptTime,
    principal: "shop",
    traceParent: undefined,
    traceState: undefined,
    position: {
      topic: TOPIC,
      partition: place % LOG_PARTITIONS,
      offset: BigInt(Math.floor(place / LOG_PARTITIONS)),
    },
  };
}

function timestamp(time: number): CloudEvent["time"] {
  const millis = ((time % 1_000) + 1_000) % 1_000;
  return { text: new Date(time).toISOString(), seconds: (time - millis) / 1_000, nanos: millis * 1_000_000 };
}

const MESSAGE = `,"message":"`;
const DIGEST = `","digest":"`;
const DIGEST_LENGTH = 24;

/** The payload with a message of some words, and what is left of the room filled by one that nobody looks for. */
function fill(body: string, room: number, { words, uuid }: Source): string {
  let left = room - MESSAGE.length - DIGEST.length - 1;
  let message = "";
  while (left > DIGEST_LENGTH) {
    const word = words(1);
    message += message === "" ? word : ` ${word}`;
    left = room - MESSAGE.length - DIGEST.length - 1 - message.length;
  }
  const digest = uuid().replaceAll("-", "").slice(0, Math.max(left, 8));
  return `${body.slice(0, -1)}${MESSAGE}${message}${DIGEST}${digest}"}`;
}
