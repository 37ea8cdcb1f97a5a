import { randomUUID } from "node:crypto";
import { type MessageInitShape } from "@bufbuild/protobuf";
import { Code, type ConnectError, type HandlerContext, type ServiceImpl } from "@connectrpc/connect";
import { quote } from "#core/faults.ts";
import { decodePageToken, encodePageToken, type PageQuestion } from "#core/page-token.ts";
import { type Fault } from "#core/reason.ts";
import { planByIndex, type ReplayOwner } from "#core/replay.ts";
import {
  type DeadLetterAdminService,
  type RedriveSchema,
  RedriveState,
  type StartRedriveRequest,
} from "#gen/weir/admin/v1/dead_letter_pb.ts";
import { type Topic } from "#kafka/topics.ts";
import { selectLetters } from "#postgres/dead-letters.ts";
import { type Database } from "#postgres/pool.ts";
import {
  controlRedrive,
  getRedrive,
  listRedrives,
  type Redrive,
  redriveName,
  type RedriveOutcome,
  startRedrive,
} from "#postgres/redrives.ts";
import { type InTurn } from "./admin-turns.ts";
import { auditKey } from "./audit.ts";
import { principalKey } from "../auth/auth.ts";
import { type Choice, readChoice, refuseFaults } from "./dead-letter-choice.ts";
import { failureOf, toConnectError } from "../errors.ts";
import { readPageSize } from "../page-size.ts";
import { fromMicros } from "../wire.ts";

/** What the methods of redrives need. */
export interface RedriveOptions {
  readonly database: Database;
  /** The only group and topic that anything is replayed for. */
  readonly owner: ReplayOwner;
  /** The dead-letter topic. */
  readonly letters: Pick<Topic, "name">;
  /** How long letters are counted for a dry run, in milliseconds. */
  readonly scanMs: number;
  readonly inTurn: InTurn;
}

type Methods = Pick<
  ServiceImpl<typeof DeadLetterAdminService>,
  "startRedrive" | "getRedrive" | "listRedrives" | "pauseRedrive" | "resumeRedrive" | "cancelRedrive"
>;

type RedriveMessage = MessageInitShape<typeof RedriveSchema>;

const DEFAULT_RATE = 1_000;
const MOST_RATE = 100_000;
const QUESTION: PageQuestion = { filter: "", order: "redrives, started_at desc" };
/** How many letters one statement counts. */
const COUNTED_LETTERS = 5_000;

/** The methods of DeadLetterAdminService that write down what the workers' redrive role is to do, and tell of it. */
export function createRedrives(options: RedriveOptions): Methods {
  const { database, inTurn, owner } = options;
  const control =
    (to: "RUNNING" | "PAUSED" | "CANCELLED") =>
    ({ name }: { readonly name: string }, context: HandlerContext) => {
      const id = readName(name);
      return inTurn(context.signal, async () => {
        const redrive = await controlRedrive(database, owner.group, id, to);
        if (redrive === undefined) throw notFound(name);
        if (redrive.state !== to && redrive.endedAt !== undefined) throw hasEnded(redrive);
        note(context, { state: redrive.state, counts: redrive.counts });
        return { redrive: toMessage(redrive) };
      });
    };
  return {
    startRedrive(request, context) {
      const { choice, maxPerSecond } = readStart(request);
      const isDry = request.dryRun ?? true;
      return inTurn(context.signal, async () => {
        if (isDry) return countLetters(options, choice, maxPerSecond, context);
        const started = await startRedrive(database, {
          id: randomUUID(),
          group: owner.group,
          filter: choice.canonical,
          reason: choice.value.reason,
          maxPerSecond,
          startedBy: context.values.get(principalKey),
        });
        if (started.begun === undefined) throw isOpen(started.open);
        note(context, { redrive: redriveName(started.begun.id) });
        return { redrive: toMessage(started.begun) };
      });
    },
    getRedrive({ name }, { signal }) {
      const id = readName(name);
      return inTurn(signal, async () => {
        const redrive = await getRedrive(database, owner.group, id);
        if (redrive === undefined) throw notFound(name);
        return { redrive: toMessage(redrive) };
      });
    },
    listRedrives({ pageSize, pageToken }, { signal }) {
      const size = readPageSize(pageSize);
      const after = pageToken === "" ? undefined : decodePageToken(pageToken, QUESTION);
      refuseFaults([...size.faults, ...(after?.ok === false ? after.faults : [])]);
      const place = after?.ok ? { time: after.value.time, id: after.value.topic ?? "" } : undefined;
      return inTurn(signal, async () => {
        const { group } = owner;
        // One more than asked for says whether there is a page after this one.
        const found = await listRedrives(database, { group, after: place, limit: size.value + 1 });
        const redrives = found.slice(0, size.value);
        const last = found.length > size.value ? redrives.at(-1) : undefined;
        const cursor = last && { time: last.startedAt, topic: last.id, partition: 0, offset: 0n };
        return {
          redrives: redrives.map(toMessage),
          nextPageToken: cursor ? encodePageToken(cursor, QUESTION) : "",
        };
      });
    },
    pauseRedrive: control("PAUSED"),
    resumeRedrive: control("RUNNING"),
    cancelRedrive: control("CANCELLED"),
  };
}

function readStart({ filter, reason, maxPerSecond }: StartRedriveRequest): {
  readonly choice: Choice;
  readonly maxPerSecond: number;
} {
  const choice = readChoice({ filter, reason, pageToken: "", order: "oldest" });
  const faults: Fault[] = [...choice.faults];
  if (maxPerSecond < 0 || maxPerSecond > MOST_RATE) {
    const description = `${maxPerSecond} records a second are not possible: give 1 to ${MOST_RATE}, or 0 for ${DEFAULT_RATE}.`;
    faults.push({ field: "max_per_second", reason: "INVALID_REQUEST", description });
  }
  refuseFaults(faults);
  return { choice, maxPerSecond: maxPerSecond === 0 ? DEFAULT_RATE : maxPerSecond };
}

/** What would become of the letters, by what the index knows of them. */
async function countLetters(
  { database, owner, letters, scanMs }: RedriveOptions,
  { value, canonical }: Choice,
  maxPerSecond: number,
  context: HandlerContext,
) {
  const until = performance.now() + scanMs;
  const counts: Partial<Record<RedriveOutcome, number>> = {};
  let { after } = value;
  let isTruncated = false;
  do {
    const page = await selectLetters(database, {
      ...value,
      group: owner.group,
      letterTopic: letters.name,
      unreplayed: true,
      after,
      limit: COUNTED_LETTERS,
      until,
    });
    for (const letter of page.letters) {
      const action = planByIndex(letter, owner)?.action ?? "REPLAY";
      const outcome = action === "REPLAY" ? "REPLAYED" : action;
      counts[outcome] = (counts[outcome] ?? 0) + 1;
    }
    after = page.next;
    isTruncated = after !== undefined && (page.truncated || performance.now() >= until);
  } while (after !== undefined && !isTruncated && !context.signal.aborted);
  note(context, { counts, truncated: isTruncated });
  const redrive: RedriveMessage = {
    filter: canonical,
    reason: value.reason ?? "",
    maxPerSecond,
    dryRun: true,
    counts: toCounts(counts),
    startedBy: context.values.get(principalKey),
  };
  return { redrive, truncated: isTruncated };
}

function note(context: HandlerContext, outcome: Readonly<Record<string, unknown>>): void {
  const entry = context.values.get(auditKey);
  if (entry !== undefined) entry.outcome = outcome;
}

const NAME = /^redrives\/([0-9a-f-]{36})$/;

function readName(name: string): string {
  const [, id] = NAME.exec(name) ?? [];
  if (id !== undefined) return id;
  const description = "A redrive's name is redrives/{id}, as StartRedrive and ListRedrives give it.";
  throw toConnectError(failureOf([{ field: "name", reason: "INVALID_NAME", description }]));
}

const STATES: Readonly<Record<Redrive["state"], RedriveState>> = {
  RUNNING: RedriveState.RUNNING,
  PAUSED: RedriveState.PAUSED,
  COMPLETED: RedriveState.COMPLETED,
  CANCELLED: RedriveState.CANCELLED,
};

function toMessage(redrive: Redrive): RedriveMessage {
  const { id, state, filter, reason, maxPerSecond, startedBy, startedAt, updatedAt, endedAt } = redrive;
  return {
    name: redriveName(id),
    state: STATES[state],
    filter,
    reason: reason ?? "",
    maxPerSecond,
    counts: toCounts(redrive.counts),
    startedBy,
    startTime: fromMicros(startedAt),
    updateTime: fromMicros(updatedAt),
    ...(endedAt !== undefined && { endTime: fromMicros(endedAt) }),
    error: redrive.error ?? "",
    worker: redrive.owner ?? "",
  };
}

function toCounts(counts: Redrive["counts"]): NonNullable<RedriveMessage["counts"]> {
  return {
    replayed: BigInt(counts.REPLAYED ?? 0),
    undecodable: BigInt(counts.UNDECODABLE ?? 0),
    foreignTopic: BigInt(counts.FOREIGN_TOPIC ?? 0),
    budgetExhausted: BigInt(counts.BUDGET_EXHAUSTED ?? 0),
    tooLarge: BigInt(counts.TOO_LARGE ?? 0),
    refused: BigInt(counts.REFUSED ?? 0),
  };
}

function notFound(name: string): ConnectError {
  return toConnectError({
    code: Code.NotFound,
    reason: "REDRIVE_NOT_FOUND",
    message: `There is no redrive ${quote(name)}.`,
  });
}

function isOpen(id: string | undefined): ConnectError {
  return toConnectError({
    code: Code.FailedPrecondition,
    reason: "REDRIVE_OPEN",
    message: `Another redrive has not ended${id === undefined ? "" : `: ${redriveName(id)}`}. Wait for its end, or cancel it.`,
    ...(id !== undefined && { metadata: { redrive: redriveName(id) } }),
  });
}

function hasEnded({ id, state }: Redrive): ConnectError {
  return toConnectError({
    code: Code.FailedPrecondition,
    reason: "REDRIVE_ENDED",
    message: `The redrive ${redriveName(id)} is ${state.toLowerCase()}: start another one for what is left.`,
    metadata: { state },
  });
}
