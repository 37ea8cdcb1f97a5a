import { type MessageInitShape } from "@bufbuild/protobuf";
import { Code, type HandlerContext } from "@connectrpc/connect";
import { type DeadLetterIdentity } from "#core/dead-letter-name.ts";
import { type Fault } from "#core/reason.ts";
import {
  type ReplayDeadLettersRequest,
  type ReplayDeadLettersResponseSchema,
} from "#gen/weir/admin/v1/dead_letter_pb.ts";
import { type InTurn } from "./admin-turns.ts";
import { auditKey } from "./audit.ts";
import { type Choice, readChoice, readNames, refuseFaults } from "./dead-letter-choice.ts";
import { toConnectError } from "../errors.ts";
import { planChosen, planNamed, type Step } from "./replay-plan.ts";
import { runPlan, type RunOptions, toMessage } from "./replay-run.ts";

/** What ReplayDeadLetters needs. */
export interface ReplayOptions extends RunOptions {
  readonly inTurn: InTurn;
}

const MAX_REPLAYS = 200;

/** ReplayDeadLetters: plans, and does what was planned where the caller says so. */
export function createReplay(options: ReplayOptions) {
  return (
    request: ReplayDeadLettersRequest,
    context: HandlerContext,
  ): Promise<MessageInitShape<typeof ReplayDeadLettersResponseSchema>> => {
    const { choice, names, limit } = readRequest(request);
    const isDry = request.dryRun ?? true;
    return options.inTurn(context.signal, async () => {
      const plan =
        names.length > 0 ? await planNamed(options, names) : await planChosen(options, choice, limit);
      if (!isDry && names.length > 0) refuseUnsatisfiable(plan.steps);
      const { steps, ...run } = isDry
        ? { steps: plan.steps.map(toMessage), published: 0, refused: 0 }
        : await runPlan(options, plan.steps, context);
      const skipped = plan.steps.filter((step) => step.plan.action !== "REPLAY").length;
      const { scanned, truncated } = plan;
      // What stopped goes on by being run again as it was.
      const nextPageToken = "stoppedAt" in run && run.stoppedAt !== undefined ? "" : plan.nextPageToken;
      noteOutcome(context, { ...run, skipped, scanned, truncated });
      return {
        plan: steps,
        ...run,
        skipped,
        scanned: BigInt(scanned),
        truncated,
        nextPageToken,
        dryRun: isDry,
      };
    });
  };
}

function noteOutcome(context: HandlerContext, outcome: Readonly<Record<string, unknown>>): void {
  const note = context.values.get(auditKey);
  if (note !== undefined) note.outcome = outcome;
}

function readRequest({ names, filter, reason, limit, pageToken }: ReplayDeadLettersRequest): {
  readonly choice: Choice;
  readonly names: readonly DeadLetterIdentity[];
  readonly limit: number;
} {
  const choice = readChoice({ filter, reason, pageToken, order: "oldest" });
  const named = readNames(names.slice(0, MAX_REPLAYS));
  const faults: Fault[] = [...choice.faults, ...named.faults];
  if (names.length > 0 && (filter !== "" || reason !== "" || limit !== 0 || pageToken !== "")) {
    const description = "Give either names, or what chooses letters: filter, reason, limit, page_token.";
    faults.push({ field: "names", reason: "INVALID_REQUEST", description });
  }
  if (names.length > MAX_REPLAYS) {
    const description = `There are ${names.length} names, and ${MAX_REPLAYS} are the most.`;
    const metadata = { limit: String(MAX_REPLAYS), actual: String(names.length), unit: "names" };
    faults.push({ field: "names", reason: "TOO_LARGE", description, metadata });
  }
  if (limit < 0) {
    const description = `${limit} letters cannot be replayed: give 1 to ${MAX_REPLAYS}, or 0 for ${MAX_REPLAYS}.`;
    faults.push({ field: "limit", reason: "INVALID_REQUEST", description });
  }
  refuseFaults(faults);
  return { choice, names: named.value, limit: Math.min(limit === 0 ? MAX_REPLAYS : limit, MAX_REPLAYS) };
}

/** @throws ConnectError where a letter that was named cannot be replayed. */
function refuseUnsatisfiable(steps: readonly Step[]): void {
  const faults = steps.flatMap(({ name, plan }): Fault[] =>
    plan.action === "REPLAY"
      ? []
      : [{ field: name, reason: "REPLAY_SET_UNSATISFIABLE", description: `${plan.action}: ${plan.why}` }],
  );
  if (faults.length === 0) return;
  throw toConnectError({
    code: Code.FailedPrecondition,
    reason: "REPLAY_SET_UNSATISFIABLE",
    message: `${faults.length} of the ${steps.length} named dead letters cannot be replayed, so none was. The details name them; a dry run tells all.`,
    faults,
    metadata: { unsatisfiable: String(faults.length) },
  });
}
