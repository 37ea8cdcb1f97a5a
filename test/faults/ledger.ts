import { createHash } from "node:crypto";
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

/**
 * Keeps, for every event that was sent, a hash of its payload and whether it was acknowledged, and compares that with the
 * rows: none lost, none doubled, none altered, none invented. It reads the table itself, so that no reader of ours can
 * hide a fault.
 */
export interface Ledger {
  sent(source: string, id: string, payload: Uint8Array): void;
  acknowledged(source: string, id: string): void;
  readonly acknowledgedCount: number;
  compare(databaseUrl: string): Promise<Verdict>;
}

const keyOf = (source: string, id: string): string => `${source} ${id}`;
const hashOf = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("base64");

/** An empty ledger. */
export function createLedger(): Ledger {
  const hashes = new Map<string, string>();
  const acknowledged = new Set<string>();
  return {
    sent(source, id, payload) {
      hashes.set(keyOf(source, id), hashOf(payload));
    },
    acknowledged(source, id) {
      acknowledged.add(keyOf(source, id));
    },
    get acknowledgedCount() {
      return acknowledged.size;
    },
    async compare(databaseUrl) {
      const seen = new Map<string, number>();
      const altered: string[] = [];
      const invented: string[] = [];
      for await (const row of rowsOf(databaseUrl)) {
        const key = keyOf(row.source, row.id);
        seen.set(key, (seen.get(key) ?? 0) + 1);
        const hash = hashes.get(key);
        if (hash === undefined) invented.push(key);
        else if (hash !== hashOf(row.data ?? new Uint8Array())) altered.push(key);
      }
      const few = (keys: Iterable<string>): string[] => [...keys].slice(0, 20);
      return {
        acknowledged: acknowledged.size,
        rows: [...seen.values()].reduce((sum, count) => sum + count, 0),
        lost: few([...acknowledged].filter((key) => !seen.has(key))),
        doubled: few([...seen].filter(([, count]) => count > 1).map(([key]) => key)),
        altered: few(altered),
        invented: few(invented),
      };
    },
  };
}

interface Row {
  readonly source: string;
  readonly id: string;
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
