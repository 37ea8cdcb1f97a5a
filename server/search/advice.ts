import { type Filter } from "#core/filter/tree.ts";
import { timeBounds } from "#core/filter/time-bounds.ts";
import { termNeeds } from "#postgres/term-needs.ts";

/** What to do where a read with this filter took too long, a sentence: what to narrow it by, of what it does not have yet. */
export function adviceFor({
  filter,
  now,
}: {
  readonly filter: Filter | undefined;
  readonly now: number;
}): string {
  const advice: string[] = [];
  if (filter === undefined || timeBounds(filter, now).from === undefined)
    advice.push("bound the time, such as time >= now-1d");
  if (filter === undefined || termNeeds(filter) === undefined) {
    advice.push(
      "add a condition that an index serves: = on type, source, subject, severity, ext.NAME or data.PATH, tags:VALUE, or a word",
    );
  }
  if (advice.length === 0) advice.push("bound the time more closely, or add a further condition");
  return `Narrow the filter: ${advice.join("; ")}.`;
}
