import { hash } from "node:crypto";
import pg from "pg";

/** What the ledger found when it compared what was acknowledged with what is stored. Each list is bounded to 20 names. */
export interface Verdict {
  readonly acknowledged: number;
  readonly rows: number;
  /** Acknowledged and not stored. */
  readonly lost: readonly string[];
  /** Stored more than once. */
  readonly doubled: readonly string[];
  /** Stored with other bytes than were sent. */
  readonly altered: readonly string[];
  /** Stored and never sent. */
  readonly invented: readonly string[];
}

/** What tells events apart. */
export interface EventName {
  readonly source: string;
  readonly id: string;
}

/**
 * Keeps, for every event that was sent, a hash of its payload and whether it was acknowledged, and compares that with the
 * rows: none lost, none doubled, none altered, none invented. It reads the table itself, so that no reader of ours can
 * hide a fault. Events go by their number; 18 bytes are kept of each, so that a million is no burden.
 */
export interface Ledger {
  sent(index: number, payload: Uint8Array): void;
  acknowledged(index: number): void;
  readonly acknowledgedCount: number;
  compare(databaseUrl: string): Promise<Verdict>;
}

const HASH_BYTES = 16;
const SOURCES = 97;

/** The name of an event by its number. */
export function nameOf(index: number): EventName {
  return { source: `/faults/${index % SOURCES}`, id: `event-${index}` };
}

/** The number of an event by its name; undefined where `nameOf` never gave it. */
function indexOf({ source, id }: EventName): number | undefined {
  const index = Number(/^event-(\d+)$/.exec(id)?.[1] ?? Number.NaN);
  const name = nameOf(index);
  return name.source === source && name.id === id ? index : undefined;
}

const hashOf = (bytes: Uint8Array): Buffer => hash("sha256", bytes, "buffer").subarray(0, HASH_BYTES);

/** An empty ledger for so many events, numbered from 0. */
export function createLedger(events: number): Ledger {
  const hashes = Buffer.alloc(events * HASH_BYTES);
  const wasSent = new Uint8Array(events);
  const isAcknowledged = new Uint8Array(events);
  let acknowledgedCount = 0;
  return {
    sent(index, payload) {
      hashOf(payload).copy(hashes, index * HASH_BYTES);
      wasSent[index] = 1;
    },
    acknowledged(index) {
      if (isAcknowledged[index] === 0) acknowledgedCount += 1;
      isAcknowledged[index] = 1;
    },
    get acknowledgedCount() {
      return acknowledgedCount;
    },
    async compare(databaseUrl) {
      const seen = new Uint8Array(events);
      const found: Record<"lost" | "doubled" | "altered" | "invented", string[]> = {
        lost: [],
        doubled: [],
        altered: [],
        invented: [],
      };
      const note = (fault: keyof typeof found, { source, id }: EventName): void => {
        if (found[fault].length < MOST_NAMES) found[fault].push(`${source} ${id}`);
      };
      let rows = 0;
      for await (const row of rowsOf(databaseUrl)) {
        rows += 1;
        const index = indexOf(row);
        if (index === undefined || wasSent[index] !== 1) {
          note("invented", row);
          continue;
        }
        if (seen[index] === 1) note("doubled", row);
        seen[index] = 1;
        const sent = hashes.subarray(index * HASH_BYTES, (index + 1) * HASH_BYTES);
        if (!hashOf(row.data ?? new Uint8Array()).equals(sent)) note("altered", row);
      }
      for (let index = 0; index < events; index++) {
        if (isAcknowledged[index] === 1 && seen[index] === 0) note("lost", nameOf(index));
      }
      return { acknowledged: acknowledgedCount, rows, ...found };
    },
  };
}

const MOST_NAMES = 20;

interface Row extends EventName {
  readonly data: Uint8Array | null;
}

async function* rowsOf(databaseUrl: string): AsyncGenerator<Row> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    await client.query("begin read only");
    await client.query("declare every_row no scroll cursor for select source, id, data from events.event");
    for (;;) {
      const { rows } = await client.query<Row>("fetch 2000 from every_row");
      if (rows.length === 0) return;
      yield* rows;
    }
  } finally {
    await client.end();
  }
}
