import { type DeadLetter } from "#core/dead-letter.ts";
import { type DeadLetterIdentity, formatDeadLetterName } from "#core/dead-letter-name.ts";
import { type Result } from "#core/reason.ts";
import { inReplayOrder, planByIndex, planReplay, type ReplayOwner, type ReplayPlan } from "#core/replay.ts";
import { readLetter } from "#kafka/letter-reader.ts";
import { type Admin } from "#kafka/ports.ts";
import { type Topic } from "#kafka/topics.ts";
import { findLetters, type IndexedLetter, selectLetters } from "#postgres/dead-letters.ts";
import { type Database } from "#postgres/pool.ts";
import { type Choice } from "./dead-letter-choice.ts";

/** What planning a replay needs. */
export interface PlanOptions {
  readonly database: Database;
  readonly admin: Pick<Admin, "readAt" | "findByKey">;
  /** The only group and topic that anything is replayed for. */
  readonly owner: ReplayOwner;
  /** The dead-letter topic. */
  readonly letters: Pick<Topic, "name" | "partitions">;
  /** How long letters are looked through for one plan, in milliseconds. */
  readonly scanMs: number;
}

/** How many letters one plan has at most, those that cannot be replayed included. */
const MAX_PLANNED = 1_000;

/** A letter that is to be replayed, and what can be done with it; a name without a letter has none. */
export interface Step {
  readonly name: string;
  readonly letter: IndexedLetter | undefined;
  readonly plan: ReplayPlan | { readonly action: "NOT_FOUND"; readonly why: string };
}

type LetterStep = Step & { readonly letter: IndexedLetter };

/** What is to be done, in the order of doing. */
export interface Plan {
  readonly steps: readonly Step[];
  readonly scanned: number;
  readonly truncated: boolean;
  readonly nextPageToken: string;
}

/** A plan for the letters of these names, the oldest first, those that there are not last. */
export async function planNamed(options: PlanOptions, names: readonly DeadLetterIdentity[]): Promise<Plan> {
  const wanted = new Map(names.map((identity) => [formatDeadLetterName(identity), identity]));
  const found = await findLetters(options.database, [...wanted.values()]);
  const steps = inReplayOrder(await planLetters(options, found.toSorted(byTime)));
  for (const { name } of steps) wanted.delete(name);
  const missing = Array.from(wanted.keys(), (name): Step => {
    return { name, letter: undefined, plan: { action: "NOT_FOUND", why: "There is no such dead letter." } };
  });
  return { steps: [...steps, ...missing], scanned: found.length, truncated: false, nextPageToken: "" };
}

function byTime(a: IndexedLetter, b: IndexedLetter): number {
  return a.time < b.time
    ? -1
    : a.time > b.time
      ? 1
      : a.partition - b.partition || (a.offset < b.offset ? -1 : 1);
}

/** The oldest letters of a choice, until as many can be replayed as are wanted; those that cannot do not count. */
export async function planChosen(
  options: PlanOptions,
  { value, tokenAfter }: Choice,
  limit: number,
): Promise<Plan> {
  const until = performance.now() + options.scanMs;
  const steps: LetterStep[] = [];
  let [after, scanned, wanted] = [value.after, 0, limit];
  for (;;) {
    const page = await selectLetters(options.database, {
      ...value,
      group: options.owner.group,
      letterTopic: options.letters.name,
      unreplayed: true,
      after,
      limit: Math.min(wanted, MAX_PLANNED - steps.length),
      until,
    });
    const planned = await planLetters(options, page.letters);
    steps.push(...planned);
    scanned += page.scanned;
    wanted -= planned.filter(({ plan }) => plan.action === "REPLAY").length;
    after = page.next;
    const isFull = wanted === 0 || steps.length >= MAX_PLANNED || performance.now() >= until;
    if (after === undefined || page.truncated || isFull) {
      const nextPageToken = tokenAfter(after);
      return { steps: inReplayOrder(steps), scanned, truncated: after !== undefined, nextPageToken };
    }
  }
}

async function planLetters(options: PlanOptions, letters: readonly IndexedLetter[]): Promise<LetterStep[]> {
  const steps: LetterStep[] = [];
  for (const letter of letters) {
    const plan =
      planByIndex(letter, options.owner) ??
      planReplay(letter, await readWhole(options, letter), options.owner);
    steps.push({ name: formatDeadLetterName(letter), letter, plan });
  }
  return steps;
}

/** Letters are read one at a time and let go, when they are planned and again when they are published: each may be 16 MiB. */
export function readWhole(
  { admin, letters }: PlanOptions,
  letter: IndexedLetter,
): Promise<Result<DeadLetter> | undefined> {
  return readLetter(admin, letters, { ...letter, writtenAt: Number(letter.time / 1_000n) });
}
