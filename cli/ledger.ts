import { createHash } from "node:crypto";
import {
  closeSync,
  ftruncateSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from "node:fs";

import { UsageError } from "./usage-error.ts";

/** Why a record was refused. */
export interface Refusal {
  readonly reason: string;
  readonly message: string;
  readonly violations: readonly {
    readonly field: string;
    readonly description: string;
    readonly reason: string;
  }[];
}

/** How far a sending has come: every record up to a point has been acknowledged or refused. */
export interface Counts {
  readonly records: number;
  readonly refused: number;
}

/** Keeps what became of the records of an input, so that a later run can go on where this one was broken off. */
export interface Ledger extends Disposable {
  /** What earlier runs have settled. */
  readonly before: Counts;
  readonly counts: Counts;
  /** How many records are held, from the first that has no outcome. */
  readonly waiting: number;
  /** Resolves with the outcome of the first record that has none; at once where all have. */
  readonly first: Promise<void>;
  /**
   * Opens the next record of the input, in order. undefined: an earlier run has settled it. Throws a UsageError where the
   * input is not the one that the earlier run had.
   */
  open(raw: Buffer, line: number): OpenRecord | undefined;
  /** Takes down how far it has come. */
  save(): void;
  /** Forgets the state, as there is nothing to go on with. Throws a UsageError where the earlier run had more records. */
  finish(): void;
}

/** A record whose outcome is awaited. */
export interface OpenRecord {
  acknowledge(): void;
  refuse(refusal: Refusal): void;
  /** Ends the wait for its outcome, which is not known. */
  leave(): void;
}

interface State extends Counts {
  readonly url: string;
  /** Of the settled records' bytes, one after another: the same input begins with them. */
  readonly sha256: string;
  /** How long the file of refusals is at this point. */
  readonly refusedBytes: number;
}

interface Slot {
  readonly raw: Buffer;
  readonly line: number;
  readonly done: PromiseWithResolvers<void>;
  refusal: Refusal | undefined;
  isSettled: boolean;
}

/**
 * A ledger that takes its state down in a file, where one is named, and the refusals in another, which is there only
 * where there are any. What a run that was broken off had settled is passed over. Throws a UsageError where the state is
 * of another server.
 */
export function openLedger(files: {
  readonly state: string | undefined;
  readonly refused: string;
  readonly url: string;
}): Ledger {
  const found = files.state === undefined ? undefined : readState(files.state);
  if (found !== undefined && found.url !== files.url) {
    throw new UsageError(
      `An earlier run that sent to ${found.url} was broken off. Finish it with that --url, or delete ${String(files.state)} to begin anew.`,
    );
  }
  const start: State = found ?? { url: files.url, sha256: "", records: 0, refused: 0, refusedBytes: 0 };
  const hash = createHash("sha256");
  /** Opened and not yet passed, in the order of the input. */
  const slots: Slot[] = [];
  let [records, refused, refusedBytes] = [0, start.refused, start.refusedBytes];
  let file: number | undefined;
  if (found === undefined) rmSync(files.refused, { force: true });
  else if (found.refusedBytes > 0) {
    // What was written after the state was taken down is found again.
    file = openSync(files.refused, "r+");
    ftruncateSync(file, found.refusedBytes);
  }

  const changed = (): UsageError =>
    new UsageError(
      `The input is not the one of which an earlier run has sent ${String(start.records)} records: delete ${String(files.state)} to send all of it.`,
    );
  const writeRefusal = ({ raw, line, refusal }: Slot): void => {
    const text = Buffer.from(`${JSON.stringify({ line, ...refusal, record: raw.toString("utf8") })}\n`);
    file ??= openSync(files.refused, "w");
    writeSync(file, text, 0, text.length, refusedBytes);
    refusedBytes += text.length;
    refused += 1;
  };
  /** Passes the records that are settled up to the first that is not. */
  const advance = (): void => {
    let passed = 0;
    for (const slot of slots) {
      if (!slot.isSettled) break;
      hash.update(slot.raw);
      if (slot.refusal !== undefined) writeRefusal(slot);
      passed += 1;
    }
    slots.splice(0, passed);
    records += passed;
  };

  return {
    before: { records: start.records, refused: start.refused },
    get counts() {
      return { records, refused };
    },
    get waiting() {
      return slots.length;
    },
    get first() {
      return slots[0]?.done.promise ?? Promise.resolve();
    },
    open(raw, line) {
      if (records < start.records) {
        hash.update(raw);
        records += 1;
        if (records === start.records && hash.copy().digest("hex") !== start.sha256) throw changed();
        return undefined;
      }
      const done = Promise.withResolvers<void>();
      const slot: Slot = { raw, line, done, refusal: undefined, isSettled: false };
      slots.push(slot);
      const settle = (refusal?: Refusal): void => {
        slot.isSettled = true;
        slot.refusal = refusal;
        if (slots[0] === slot) advance();
        done.resolve();
      };
      return { acknowledge: () => settle(), refuse: settle, leave: () => done.resolve() };
    },
    save() {
      if (files.state === undefined || records < start.records) return;
      const state: State = {
        url: files.url,
        records,
        refused,
        refusedBytes,
        sha256: hash.copy().digest("hex"),
      };
      writeFileSync(`${files.state}.new`, `${JSON.stringify(state)}\n`);
      renameSync(`${files.state}.new`, files.state);
    },
    finish() {
      if (records < start.records) throw changed();
      if (files.state !== undefined) rmSync(files.state, { force: true });
    },
    [Symbol.dispose]() {
      if (file !== undefined) closeSync(file);
    },
  };
}

function readState(path: string): State | undefined {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  try {
    return JSON.parse(text) as State;
  } catch {
    throw new UsageError(
      `${path} cannot be read: delete it to send the whole input again, which does no harm.`,
    );
  }
}
