import { parseFilter } from "#core/filter/parse.ts";
import { type StoredEvent } from "#core/event.ts";
import { type Database } from "#postgres/pool.ts";
import { type Cursor, type Question, searchEvents } from "#postgres/search.ts";
import { countEvents, type FacetField, facetEvents, histogramEvents } from "#postgres/summaries.ts";

import { createRandom } from "./random.ts";
import {
  CHUNK,
  createChunk,
  DAYS,
  END,
  NEEDLE_EVERY,
  needleWord,
  SOURCES,
  TENANTS,
  TYPES,
  VOCABULARY,
  WAIVER_EVERY,
} from "./search-events.ts";

/** A line of the table: questions of one kind, with what each may take. */
export interface Line {
  readonly what: string;
  /** What 95 of a hundred are to be answered within, in milliseconds; undefined where it is only told. */
  readonly target: number | undefined;
  /** How many questions at most. */
  readonly most?: number;
  /** Filters, each with values of its own. */
  readonly filterAt: (chance: Chance) => string;
  /** "page": the first 50; "later page": the 1,000th of a question; "summaries": facets, histogram and total at once; "all": both. */
  readonly asks: "page" | "later page" | "summaries" | "all";
}

/** A question, and from where on. */
export interface Asked {
  readonly text: string;
  readonly question: Question;
  readonly after: Cursor | undefined;
}

/** The questions of each line. */
export type Prepared = ReadonlyMap<Line, readonly Asked[]>;

/** What filters are made of. */
export interface Chance {
  readonly random: (below: number) => number;
  readonly pick: <T>(from: readonly T[]) => T;
  /** One of the events that are stored. */
  readonly event: () => StoredEvent;
  /** A place in a list, the first more often (1/n). */
  readonly rank: (length: number) => number;
  /** How many events are stored. */
  readonly rows: number;
}

/** Always the same chance for so many rows. */
export function createChance(rows: number, seed: number): Chance {
  const random = createRandom(seed);
  // Some chunks of the whole time; to make one takes a while.
  const chunks = Array.from({ length: 4 }, () => createChunk(random(Math.ceil(rows / CHUNK)), rows));
  const pick = <T>(from: readonly T[]): T => from[random(from.length)]!;
  return {
    random,
    pick,
    event: () => pick(pick(chunks)),
    rank: (length) => Math.floor((length + 1) ** (random(1_000_000) / 1_000_000)) - 1,
    rows,
  };
}

const quote = (text: string): string => JSON.stringify(text);
const payloadOf = ({ event }: StoredEvent): Record<string, unknown> =>
  JSON.parse(Buffer.from(event.data!.bytes).toString()) as Record<string, unknown>;

const wordsOfNote = (event: StoredEvent): readonly string[] =>
  (payloadOf(event) as { readonly note: string }).note.split(" ");

/** An hour to a week, somewhere in the time that events are of. */
function stretch({ random }: Chance): string {
  const hours = 1 + random(7 * 24);
  const from = END - random((DAYS - 7) * 24) * 3_600_000 - hours * 3_600_000;
  return `time >= ${quote(new Date(from).toISOString())} time < ${quote(new Date(from + hours * 3_600_000).toISOString())}`;
}

const INDEXED: readonly ((chance: Chance) => string)[] = [
  ({ rank }) => `type = ${quote(TYPES[rank(TYPES.length)]!)}`,
  ({ rank }) => `source = ${quote(SOURCES[rank(SOURCES.length)]!)}`,
  ({ event }) => `subject = ${quote(event().event.subject!)}`,
  ({ event }) => `id = ${quote(event().event.id)}`,
  ({ pick }) => `severity >= ${pick(["WARN", "ERROR", "FATAL"])}`,
  ({ rank }) => `type = ${quote(TYPES[rank(TYPES.length)]!)} ext.tenant = "t${rank(TENANTS)}"`,
  (chance) => `source = ${quote(SOURCES[chance.rank(SOURCES.length)]!)} ${stretch(chance)}`,
];

/** So frequent that a thousand pages have them, with a million events too. */
const FREQUENT: readonly string[] = [
  `type = ${quote(TYPES[0]!)}`,
  `source = ${quote(SOURCES[0]!)}`,
  `severity >= WARN`,
  `ext.tenant = "t0"`,
];

const EQUAL: readonly ((chance: Chance) => string)[] = [
  (chance) => {
    for (;;) {
      const { orderId } = payloadOf(chance.event());
      if (typeof orderId === "string") return `data.orderId = ${quote(orderId)}`;
    }
  },
  ({ pick }) => `data.status = ${quote(pick(["open", "paid", "failed"]))}`,
  ({ rank }) => `data.customer.id = "c-${rank(200_000)}"`,
  ({ rank }) => `data.items[*].sku = "SKU-${rank(20_000)}"`,
  ({ random }) => `data.risk.score = ${random(1_000)}`,
  ({ rank }) => `ext.tenant = "t${rank(TENANTS)}"`,
  ({ pick }) => `tags:${pick(["eu", "web", "audit", "review", "quarantine"])}`,
];

const amount = ({ random }: Chance): string => (10 ** (1 + (3 * random(1_000)) / 1_000)).toFixed(2);

/** The lines of the table. */
export const LINES: readonly Line[] = [
  {
    what: "a page with an indexed condition, the first",
    target: 5,
    asks: "page",
    filterAt: (chance) => chance.pick(INDEXED)(chance),
  },
  {
    what: "a page with an indexed condition, the 1,000th",
    target: 5,
    asks: "later page",
    filterAt: ({ pick }) => pick(FREQUENT),
  },
  {
    what: "type or source glob + time range",
    target: 10,
    asks: "page",
    filterAt(chance) {
      const { pick, rank } = chance;
      const [subject, verb] = TYPES[rank(TYPES.length)]!.split(".").slice(2);
      const city = SOURCES[rank(SOURCES.length)]!.split("/")[2];
      const glob = pick([
        `type = "com.acme.${subject}.*"`,
        `type = "com.acme.*.${verb}"`,
        `source = "/acme/${city}/*"`,
      ]);
      return `${glob} ${stretch(chance)}`;
    },
  },
  {
    what: "data.path = value, ext.name = value, tag",
    target: 10,
    asks: "page",
    filterAt: (chance) => chance.pick(EQUAL)(chance),
  },
  {
    what: "data.path > number in the last day, a path named in the settings",
    target: 20,
    asks: "page",
    filterAt: (chance) => `data.amount > ${amount(chance)} time >= now-1d`,
  },
  {
    what: "data.path > number in the last day, any path",
    target: 200,
    asks: "page",
    filterAt: ({ pick, random }) =>
      pick([
        `data.weight > ${19_990 + random(20)} time >= now-1d`,
        `data.weight > ${random(20_000)} time >= now-1d`,
        `data.risk.score >= ${900 + random(100)} time >= now-1d`,
        `data.items[*].qty > ${random(10)} time >= now-1d`,
      ]),
  },
  {
    what: "full text, two words, newest 50",
    target: 20,
    asks: "page",
    filterAt: ({ pick, rank, event }) => {
      const word = (): string => VOCABULARY[rank(VOCABULARY.length)]!;
      const [first, , third] = wordsOfNote(event());
      return pick([`${word()} ${word()}`, `${first} ${third}`]);
    },
  },
  {
    what: "a phrase of two words, newest 50",
    target: undefined,
    asks: "page",
    filterAt: ({ event }) => quote(wordsOfNote(event()).slice(0, 2).join(" ")),
  },
  {
    what: "facets + histogram + total of a day's filter",
    target: 50,
    asks: "summaries",
    filterAt: ({ pick, rank }) =>
      `${pick([
        `type = ${quote(TYPES[rank(TYPES.length)]!)}`,
        `source = ${quote(SOURCES[rank(SOURCES.length)]!)}`,
        `ext.tenant = "t${rank(TENANTS)}"`,
        `severity >= WARN`,
        `tags:audit`,
        VOCABULARY[rank(1_000)]!,
      ])} time >= now-1d`,
  },
  {
    what: "facets + histogram + total of a whole day, nothing else asked",
    target: undefined,
    asks: "summaries",
    filterAt: ({ random }) => {
      const from = END - (1 + random(80)) * 86_400_000;
      return `time >= ${quote(new Date(from).toISOString())} time < ${quote(new Date(from + 86_400_000).toISOString())}`;
    },
  },
  {
    what: "the unfiltered first page, everything",
    target: 50,
    asks: "all",
    filterAt: () => "",
  },
  {
    what: "a rare condition without a time bound",
    target: 100,
    asks: "page",
    filterAt: ({ pick, random, rows, event }) =>
      pick([
        needleWord(random(Math.ceil(rows / NEEDLE_EVERY)) * NEEDLE_EVERY),
        `data.audit.waiver = "w-${(1 + random(Math.max(1, rows / WAIVER_EVERY))) * WAIVER_EVERY - 1}"`,
        `id = ${quote(event().event.id)}`,
        `tags:quarantine type = ${quote(TYPES[TYPES.length - 1]!)}`,
        "nobodyhaseversaidthis",
      ]),
  },
  {
    what: "a rare condition without a time bound that no index serves",
    target: undefined,
    asks: "page",
    most: 3,
    filterAt: () => "data.audit.level:*",
  },
];

/** A filter with the moment from which its `now` counts. */
export function questionOf(text: string): Question {
  const parsed = parseFilter(text);
  if (!parsed.ok)
    throw new Error(`${text}: ${parsed.faults.map(({ description }) => description).join(" ")}`);
  return { filter: parsed.value, now: END };
}

const PAGE = 50;
/** One more than the page says whether there is another. */
const LIMIT = PAGE + 1;
const FIELDS: readonly FacetField[] = [
  "type",
  "source",
  "subject",
  "severity",
  "tags",
  "ext.tenant",
  "ext.region",
];

/** Asks a question as the server does. */
export async function ask(
  db: Database,
  { asks }: Pick<Line, "asks">,
  question: Question,
  after: Cursor | undefined,
): Promise<void> {
  const page = (): Promise<unknown> =>
    searchEvents(db, { ...question, order: "time desc", after, limit: LIMIT });
  const summaries = (): readonly Promise<unknown>[] => [
    facetEvents(db, { ...question, fields: FIELDS, candidates: 50_000, values: 20 }),
    histogramEvents(db, question),
    countEvents(db, { ...question, limit: 10_001 }),
  ];
  await Promise.all([
    ...(asks === "summaries" ? [] : [page()]),
    ...(asks === "summaries" || asks === "all" ? summaries() : []),
  ]);
}

/** Walks page by page, and answers the place of the last event of the one before the n-th, or before the last. */
export async function cursorOf(db: Database, question: Question, n: number): Promise<Cursor | undefined> {
  let after: Cursor | undefined;
  for (let page = 1; page < n; page++) {
    const found = await searchEvents(db, { ...question, order: "time desc", after, limit: LIMIT });
    const last = found.length > PAGE ? found[PAGE - 1] : undefined;
    if (last === undefined) break;
    const { seconds, nanos } = last.event.time!;
    after = {
      ...last.position,
      occurredAt: BigInt(seconds) * 1_000_000n + BigInt(Math.floor(nanos / 1_000)),
    };
  }
  return after;
}
