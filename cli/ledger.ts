import { isUtf8 } from "node:buffer";
import { createHash } from "node:crypto";
import { existsSync, rmSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";

import { createRefusals, LINE_START, type Refusals, reopenRefusals } from "./refusals.ts";
import { openStateFile, type SendState, type StateFile } from "./send-state.ts";
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
  /** Up to which byte of the input every record is settled. */
  readonly position: number;
  /** The file of refusals, which is there where there are any. */
  readonly refused: string;
  /** How many records are held, from the first that has no outcome. */
  readonly waiting: number;
  /** Resolves with the outcome of the first record that has none; at once where all have. */
  readonly first: Promise<void>;
  /**
   * Opens the next record of the input, in order. undefined: an earlier run has settled it. Throws a UsageError where the
   * input is not the one that the earlier run had.
   */
  open(record: LedgerRecord): OpenRecord | undefined;
  /** Takes down how far it has come. Throws what the file system says, and where another run has taken over. */
  save(this: void): void;
  /** Forgets the state, as there is nothing to go on with. Throws a UsageError where the earlier run had more records. */
  finish(): void;
}

/** A record of the input. */
export interface LedgerRecord {
  readonly raw: Buffer;
  readonly line: number;
  /** How many bytes of the input have been read with it. */
  readonly position: number;
}

/** A record whose outcome is awaited. Its methods throw where a refusal cannot be written down. */
export interface OpenRecord {
  acknowledge(): void;
  refuse(refusal: Refusal): void;
  /** Ends the wait for its outcome, which is not known. */
  leave(): void;
}

interface Slot extends LedgerRecord {
  readonly done: PromiseWithResolvers<void>;
  refusal: Refusal | undefined;
  isSettled: boolean;
}

/** Where a ledger keeps what it knows. */
export interface LedgerFiles {
  /** undefined: the input cannot be read twice, and nothing is kept. */
  readonly state: string | undefined;
  /** The file of refusals of a new sending. */
  readonly refused: string;
  /** Whether the user gave that name: then no other is taken in its place. */
  readonly isRefusedAskedFor: boolean;
  readonly url: string;
}

/**
 * A ledger that takes its state down in a file, where one is named, and the refusals in another. What a run that was
 * broken off had settled is passed over. Throws a UsageError, and changes nothing, where the state is of another server or
 * another run has it, and where the refusals cannot be written without harm to what is there.
 */
export function openLedger(files: LedgerFiles): Ledger {
  const nothing = createHash("sha256").digest("hex");
  const initial: SendState = {
    url: files.url,
    records: 0,
    refused: 0,
    sha256: nothing,
    refusedFile: "",
    refusedBytes: 0,
    refusedSha256: nothing,
  };
  const state = files.state === undefined ? undefined : openStateFile(files.state, initial);
  const start = state?.found ?? initial;
  const folder = dirname(files.state ?? "");
  let refusals: Refusals;
  try {
    refusals = openRefusals(files, start, folder);
    state?.save({ ...start, refusedFile: relative(folder, refusals.path) });
  } catch (error) {
    letGo(state, start);
    throw error;
  }
  const hash = createHash("sha256");
  /** Opened and not yet passed, in the order of the input. */
  const slots: Slot[] = [];
  let [records, refused, position] = [0, start.refused, 0];
  let isOver = false;

  const now = (): SendState => {
    if (records < start.records) return start;
    return {
      url: files.url,
      records,
      refused,
      sha256: hash.copy().digest("hex"),
      refusedFile: relative(folder, refusals.path),
      refusedBytes: refusals.bytes,
      refusedSha256: refusals.sha256,
    };
  };
  const changed = (): UsageError =>
    new UsageError(
      `The input is not the one of which an earlier run has sent ${String(start.records)} records: delete ${String(files.state)} to send all of it.`,
    );
  /** Passes the records that are settled up to the first that is not. */
  const advance = (): void => {
    let passed = 0;
    try {
      for (const slot of slots) {
        if (!slot.isSettled) break;
        if (slot.refusal !== undefined) {
          refusals.write(lineOf(slot, slot.refusal));
          refused += 1;
        }
        hash.update(slot.raw);
        ({ position } = slot);
        passed += 1;
      }
    } finally {
      slots.splice(0, passed);
      records += passed;
    }
  };

  return {
    before: { records: start.records, refused: start.refused },
    get counts() {
      return { records, refused };
    },
    get position() {
      return position;
    },
    refused: refusals.path,
    get waiting() {
      return slots.length;
    },
    get first() {
      return slots[0]?.done.promise ?? Promise.resolve();
    },
    open(record) {
      if (records < start.records) {
        hash.update(record.raw);
        records += 1;
        ({ position } = record);
        if (records === start.records && hash.copy().digest("hex") !== start.sha256) throw changed();
        return undefined;
      }
      const done = Promise.withResolvers<void>();
      const { raw, line } = record;
      const slot: Slot = { raw, line, position: record.position, done, refusal: undefined, isSettled: false };
      slots.push(slot);
      const settle = (refusal?: Refusal): void => {
        slot.isSettled = true;
        slot.refusal = refusal;
        done.resolve();
        if (slots[0] === slot) advance();
      };
      return { acknowledge: () => settle(), refuse: settle, leave: () => done.resolve() };
    },
    save() {
      if (records >= start.records) state?.save(now());
    },
    finish() {
      if (records < start.records) throw changed();
      state?.remove();
      isOver = true;
    },
    [Symbol.dispose]() {
      const isEmpty = refusals.bytes === 0;
      refusals.close();
      try {
        if (!isOver) letGo(state, isEmpty ? { ...now(), refusedFile: "" } : now());
      } catch {
        // Another run has both files by now, or they cannot be written: what was saved last is what there is.
        return;
      }
      if (isEmpty) rmSync(refusals.path, { force: true });
    },
  };
}

/** The file of refusals, as the earlier run left it or new. */
function openRefusals(files: LedgerFiles, start: SendState, folder: string): Refusals {
  if (start.refusedFile === "") {
    if (resolve(files.refused) === resolve(`${String(files.state)}.new`)) {
      throw new UsageError(
        "--refused: the state of the sending is written by way of that file. Name another.",
      );
    }
    return createRefusals(files.refused, files.isRefusedAskedFor);
  }
  const path = join(folder, start.refusedFile);
  if (files.isRefusedAskedFor && resolve(path) !== resolve(files.refused)) {
    throw new UsageError(`--refused: an earlier run, which this one goes on with, wrote into ${path}.`);
  }
  const isNew = start.refusedBytes === 0 && !existsSync(path);
  return isNew
    ? createRefusals(path, files.isRefusedAskedFor)
    : reopenRefusals(path, { bytes: start.refusedBytes, sha256: start.refusedSha256 });
}

/** A state of nothing is none. */
function letGo(state: StateFile | undefined, last: SendState): void {
  if (last.records === 0) state?.remove();
  else state?.release(last);
}

function lineOf({ line, raw }: LedgerRecord, refusal: Refusal): string {
  const record = isUtf8(raw) ? { record: raw.toString("utf8") } : { record_base64: raw.toString("base64") };
  return `${LINE_START}${String(line)},${JSON.stringify({ ...refusal, ...record }).slice(1)}`;
}
