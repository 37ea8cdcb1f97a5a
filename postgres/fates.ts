import { type LogPosition } from "#core/event.ts";

import { encodeArray } from "./binary-format.ts";
import { type Database } from "./pool.ts";
import { read } from "./read.ts";

/**
 * What became of a record that the checkpoint has passed: its event has a row (its own, or the one that it repeats), it is a
 * dead letter, or the checkpoint went past it without looking at it.
 */
export type Fate = "stored" | "dead_lettered" | "skipped";

// Nearly every record is stored, so what is looked for are the others, each by its key.
const FATES = `
select place.nth::int, letter."offset" is not null as is_letter
from unnest($3::int4[], $4::int8[]) with ordinality as place (partition, "offset", nth)
left join consumer.dead_letter as letter on letter.group_id = $1 and letter.topic = $2
  and letter.partition = place.partition and letter."offset" = place."offset"
left join lateral (
  select to_offset from consumer.skip
  where group_id = $1 and topic = $2 and partition = place.partition and from_offset <= place."offset"
  order by from_offset desc limit 1
) as skip on to_offset > place."offset"
where letter."offset" is not null or to_offset is not null`;

/**
 * What became of records of a topic that its consumer group's checkpoint has passed, by their index: one statement.
 *
 * @throws QueryTimeoutError where PostgreSQL did not answer within the pool's statement timeout.
 */
export async function fatesOf(
  db: Database,
  { group, topic }: { readonly group: string; readonly topic: string },
  positions: readonly Pick<LogPosition, "partition" | "offset">[],
): Promise<readonly Fate[]> {
  const partitions = positions.map(({ partition }) => partition);
  const offsets = positions.map(({ offset }) => offset);
  const others = await read<{ readonly nth: number; readonly is_letter: boolean }>(db, {
    name: "fates.of",
    text: FATES,
    values: [group, topic, encodeArray("int4", partitions), encodeArray("int8", offsets)],
  });
  const fates: Fate[] = positions.map(() => "stored");
  for (const { nth, is_letter: isLetter } of others) fates[nth - 1] = isLetter ? "dead_lettered" : "skipped";
  return fates;
}
