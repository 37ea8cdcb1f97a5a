import { spawn } from "node:child_process";
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Ledger, type LedgerFiles, type LedgerRecord, openLedger } from "./ledger.ts";

let folder: string;
let files: LedgerFiles & { readonly state: string };
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "weir-ledger-"));
  const [state, refused] = [join(folder, "state"), join(folder, "refused.ndjson")];
  files = { state, refused, isRefusedAskedFor: false, url: "http://weir" };
});
afterEach(() => rmSync(folder, { recursive: true }));

const refusal = { reason: "TOO_LARGE", message: "it is too large", violations: [] };
const record = (text: string | number, line = 1): LedgerRecord => ({
  raw: Buffer.from(String(text)),
  line,
  position: line * 10,
});
const refusedLines = (): number[] =>
  !existsSync(files.refused)
    ? []
    : readFileSync(files.refused, "utf8")
        .split("\n")
        .filter((text) => text !== "")
        .map((text) => (JSON.parse(text) as { line: number }).line);

test("counts what is settled without a gap before it", async () => {
  using ledger = openLedger(files);
  const [first, second, third] = [1, 2, 3].map((line) => ledger.open(record(line, line)));
  third?.refuse(refusal);
  second?.acknowledge();
  expect(ledger.counts).toEqual({ records: 0, refused: 0 });
  expect(ledger.waiting).toBe(3);
  first?.acknowledge();
  await ledger.first;
  expect(ledger.counts).toEqual({ records: 3, refused: 1 });
  expect(ledger.waiting).toBe(0);
  expect(JSON.parse(readFileSync(files.refused, "utf8"))).toEqual({ line: 3, ...refusal, record: "3" });
});

test("goes on where it was broken off, and forgets where it came to the end", () => {
  {
    using ledger = openLedger(files);
    ledger.open(record("a", 1))?.acknowledge();
    ledger.open(record("b", 2))?.refuse(refusal);
    ledger.open(record("c", 3));
    ledger.open(record("d", 4))?.refuse(refusal);
    ledger.save();
  }
  using ledger = openLedger(files);
  const opened = ["a", "b", "c", "d"].map((text, index) => ledger.open(record(text, index + 1)));
  expect(opened.map((each) => each !== undefined)).toEqual([false, false, true, true]);
  for (const each of opened) each?.acknowledge();
  expect(ledger.counts).toEqual({ records: 4, refused: 1 });
  expect(refusedLines()).toEqual([2]);
  ledger.finish();
  expect(existsSync(files.state)).toBe(false);
});

test("refuses to go on with another input, a shorter one, or another server", () => {
  const begin = (): Ledger => {
    const ledger = openLedger(files);
    for (const text of ["a", "b"]) ledger.open(record(text, 1))?.acknowledge();
    ledger.save();
    return ledger;
  };
  begin();
  const other = openLedger(files);
  other.open(record("a", 1));
  expect(() => other.open(record("x", 2))).toThrow(/not the one of which an earlier run has sent 2 records/);
  const shorter = openLedger(files);
  shorter.open(record("a", 1));
  shorter.save();
  expect(() => shorter.finish()).toThrow(/not the one/);
  expect(() => openLedger({ ...files, url: "http://other" })).toThrow(
    /An earlier run that sent to http:\/\/weir/,
  );
});

test("keeps what is there under the names of its files, and leaves none of its own where it has nothing to say", () => {
  writeFileSync(files.refused, "mine\n");
  writeFileSync(join(folder, "refused-2.ndjson"), "");
  const before = readdirSync(folder);
  {
    using ledger = openLedger(files);
    ledger.open(record(1))?.acknowledge();
    ledger.finish();
  }
  expect(readdirSync(folder)).toEqual(before);
  {
    using ledger = openLedger({ ...files, state: undefined });
    expect(ledger.refused).toBe(join(folder, "refused-3.ndjson"));
    ledger.open(record(1))?.refuse(refusal);
    ledger.save();
  }
  expect(readdirSync(folder)).toEqual([...before, "refused-3.ndjson"].toSorted());
  expect(readFileSync(files.refused, "utf8")).toBe("mine\n");
});

test("refuses a name that was asked for and that is taken, whatever by, and leaves nothing behind", () => {
  const asked = (refused: string): (() => Ledger) => {
    const path = join(folder, refused);
    return () => openLedger({ ...files, refused: path, isRefusedAskedFor: true });
  };
  writeFileSync(join(folder, "input"), "{}\n");
  for (const taken of ["input", ".", "state"]) expect(asked(taken)).toThrow(/is there already/);
  expect(asked("state.new")).toThrow(/Name another/);
  expect(asked("no/such/folder")).toThrow(/What is refused cannot be written down: ENOENT/);
  expect(readdirSync(folder)).toEqual(["input"]);
  expect(readFileSync(join(folder, "input"), "utf8")).toBe("{}\n");
});

test("refuses to go on with refusals that are gone, cut or changed, or under another name", () => {
  {
    using ledger = openLedger(files);
    for (const text of ["a", "b"]) ledger.open(record(text))?.refuse(refusal);
    ledger.save();
  }
  const [state, written] = [files.state, files.refused].map((path) => readFileSync(path, "utf8"));
  for (const wrong of [
    "",
    written!.slice(0, -3),
    written!.replace("too", "TOO"),
    `${written!}a note of mine\n`,
  ]) {
    writeFileSync(files.refused, wrong);
    expect(() => openLedger(files)).toThrow(/it was changed/);
    expect(readFileSync(files.refused, "utf8")).toBe(wrong);
  }
  writeFileSync(files.refused, written!);
  expect(() => openLedger({ ...files, refused: join(folder, "other"), isRefusedAskedFor: true })).toThrow(
    /an earlier run, which this one goes on with, wrote into .*refused\.ndjson/,
  );
  renameSync(files.refused, join(folder, "moved"));
  expect(() => openLedger(files)).toThrow(/What an earlier run refused is not there/);
  expect(readFileSync(files.state, "utf8")).toBe(state);
  renameSync(join(folder, "moved"), files.refused);
  openLedger(files)[Symbol.dispose]();
  expect(readFileSync(files.refused, "utf8")).toBe(written);
});

test("leaves a state alone that is none, or that a run is at which still lives", () => {
  for (const wrong of ["", "{", "{}", "null", "[]", '{"url":5}']) {
    writeFileSync(files.state, wrong);
    expect(() => openLedger(files)).toThrow(/is no state of a sending: delete it/);
    expect(readFileSync(files.state, "utf8")).toBe(wrong);
  }
  rmSync(files.state);
  using ledger = openLedger(files);
  ledger.open(record("a"))?.acknowledge();
  ledger.save();
  const other = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"]);
  const kept = JSON.parse(readFileSync(files.state, "utf8")) as { pid: number };
  expect(kept.pid).toBe(process.pid);
  writeFileSync(files.state, JSON.stringify({ ...kept, pid: other.pid }));
  expect(() => openLedger(files)).toThrow(
    new RegExp(`Another run \\(process ${String(other.pid)}\\) is sending this file`),
  );
  expect(() => ledger.save()).toThrow(/has taken .* over/);
  other.kill("SIGKILL");
});

test("is not tied to a server to which nothing was sent", () => {
  {
    using ledger = openLedger(files);
    ledger.open(record("a"));
    ledger.save();
  }
  expect(readdirSync(folder)).toEqual([]);
  using ledger = openLedger({ ...files, url: "http://other" });
  expect(ledger.counts.records).toBe(0);
});

test("writes down the bytes of what is no UTF-8", () => {
  const raw = Buffer.from([0x7b, 0xff]);
  using ledger = openLedger(files);
  ledger.open({ raw, line: 1, position: 2 })?.refuse(refusal);
  expect(JSON.parse(readFileSync(ledger.refused, "utf8"))).toEqual({
    line: 1,
    ...refusal,
    record_base64: raw.toString("base64"),
  });
});

test("takes back a refusal that was noted after the state was taken down", () => {
  // It is not disposed of: the run was killed.
  const killed = openLedger(files);
  killed.open(record("a", 1))?.refuse(refusal);
  killed.save();
  killed.open(record("b", 2))?.refuse(refusal);
  expect(refusedLines()).toEqual([1, 2]);
  using ledger = openLedger(files);
  ledger.open(record("a", 1));
  ledger.open(record("b", 2))?.acknowledge();
  expect(refusedLines()).toEqual([1]);
});

test("notes every refusal once, wherever runs are broken off", () => {
  const run = fc.record({
    settled: fc.array(fc.boolean(), { maxLength: 12 }),
    save: fc.boolean(),
    kill: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(fc.boolean(), { maxLength: 12 }), fc.array(run, { maxLength: 4 }), (isBad, runs) => {
      for (const path of [files.state, files.refused]) rmSync(path, { force: true });
      const play = (settled: readonly boolean[], save: boolean, kill: boolean): Ledger => {
        const ledger = openLedger(files);
        const records = isBad.map((_, index) => ledger.open(record(index, index)));
        for (const [index, opened] of records.entries()) {
          if (settled[index] === false) continue;
          if (isBad[index] === true) opened?.refuse(refusal);
          else opened?.acknowledge();
        }
        if (save) ledger.save();
        if (!kill) ledger[Symbol.dispose]();
        return ledger;
      };
      for (const { settled, save, kill } of runs) play(settled, save, kill);
      const last = play([], false, true);
      const wanted = isBad.flatMap((bad, index) => (bad ? [index] : []));
      expect(last.counts).toEqual({ records: isBad.length, refused: wanted.length });
      expect(refusedLines()).toEqual(wanted);
      last.finish();
      last[Symbol.dispose]();
    }),
    { numRuns: 50 },
  );
});
