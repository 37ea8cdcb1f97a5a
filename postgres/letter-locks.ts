import { type DeadLetterIdentity } from "#core/dead-letter-name.ts";

import { type ElementType, type ElementValue, encodeArray } from "./binary-format.ts";
import { type Tx } from "./tx.ts";

/** A letter as it was when its replay was planned. */
export interface PlannedLetter extends DeadLetterIdentity {
  readonly replays: number;
}

/** How long a letter is waited for that another replay has locked, and how long one may be published under a lock. */
const [WAIT, HELD] = ["15s", "60s"];

const LOCK = `
select planned.n from unnest($1::text[], $2::text[], $3::int[], $4::bigint[], $5::int[]) with ordinality as planned (g, t, p, o, r, n)
join consumer.dead_letter as letter
  on letter.group_id = g and letter.topic = t and letter.partition = p and letter."offset" = o and letter.replays = r
order by group_id, topic, partition, "offset" for update of letter`;

/**
 * Locks letters until the transaction ends and answers those that nobody has replayed since they were planned: so a letter
 * is published by one replay at a time, and each next one sees what the one before did.
 */
export async function lockUnreplayed<T extends PlannedLetter>(
  tx: Tx,
  letters: readonly T[],
): Promise<ReadonlySet<T>> {
  if (letters.length === 0) return new Set();
  const list = <E extends ElementType>(type: E, valueOf: (letter: T) => ElementValue<E>): Buffer =>
    encodeArray(type, letters.map(valueOf));
  await tx.query({
    text: `set local lock_timeout = '${WAIT}'; set local idle_in_transaction_session_timeout = '${HELD}'`,
  });
  const { rows } = await tx.query<{ n: string }>({
    name: "letter-locks.lock",
    text: LOCK,
    values: [
      list("text", ({ group }) => group),
      list("text", ({ topic }) => topic),
      list("int4", ({ partition }) => partition),
      list("int8", ({ offset }) => offset),
      list("int4", ({ replays }) => replays),
    ],
  });
  return new Set(rows.map(({ n }) => letters[Number(n) - 1]!));
}
