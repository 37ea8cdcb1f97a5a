import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Ledger, openLedger } from "./ledger.ts";

let folder: string;
let files: { readonly state: string; readonly refused: string; readonly url: string };
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "weir-ledger-"));
  files = { state: join(folder, "state"), refused: join(folder, "refused"), url: "http://weir" };
});
afterEach(() => rmSync(folder, { recursive: true }));

const refusal = { reason: "TOO_LARGE", message: "it is too large", violations: [] };
const bytes = (text: string | number): Buffer => Buffer.from(String(text));
const refusedLines = (): number[] =>
  !existsSync(files.refused)
    ? []
    : readFileSync(files.refused, "utf8")
        .trimEnd()
        .split("\n")
        .map((text) => (JSON.parse(text) as { line: number }).line);

test("counts what is settled without a gap before it", async () => {
  using ledger = openLedger(files);
  const [first, second, third] = [1, 2, 3].map((line) => ledger.open(bytes(line), line));
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
    ledger.open(bytes("a"), 1)?.acknowledge();
    ledger.open(bytes("b"), 2)?.refuse(refusal);
    ledger.open(bytes("c"), 3);
    ledger.open(bytes("d"), 4)?.refuse(refusal);
    ledger.save();
  }
  using ledger = openLedger(files);
  const opened = ["a", "b", "c", "d"].map((text, index) => ledger.open(bytes(text), index + 1));
  expect(opened.map((record) => record !== undefined)).toEqual([false, false, true, true]);
  for (const record of opened) record?.acknowledge();
  expect(ledger.counts).toEqual({ records: 4, refused: 1 });
  expect(refusedLines()).toEqual([2]);
  ledger.finish();
  expect(existsSync(files.state)).toBe(false);
});

test("refuses to go on with another input, a shorter one, or another server", () => {
  const begin = (): Ledger => {
    const ledger = openLedger(files);
    for (const text of ["a", "b"]) ledger.open(bytes(text), 1)?.acknowledge();
    ledger.save();
    return ledger;
  };
  begin();
  const other = openLedger(files);
  other.open(bytes("a"), 1);
  expect(() => other.open(bytes("x"), 2)).toThrow(/not the one of which an earlier run has sent 2 records/);
  const shorter = openLedger(files);
  shorter.open(bytes("a"), 1);
  shorter.save();
  expect(() => shorter.finish()).toThrow(/not the one/);
  expect(() => openLedger({ ...files, url: "http://other" })).toThrow(
    /An earlier run that sent to http:\/\/weir/,
  );
  writeFileSync(files.state, "{");
  expect(() => openLedger(files)).toThrow(/cannot be read/);
});

test("begins anew without the refusals of a run before", () => {
  writeFileSync(files.refused, "old\n");
  using ledger = openLedger({ ...files, state: undefined });
  ledger.open(bytes(1), 1)?.acknowledge();
  ledger.save();
  expect(existsSync(files.refused)).toBe(false);
  expect(existsSync(files.state)).toBe(false);
});

test("takes back a refusal that was noted after the state was taken down", () => {
  {
    using ledger = openLedger(files);
    ledger.open(bytes("a"), 1)?.refuse(refusal);
    ledger.save();
    ledger.open(bytes("b"), 2)?.refuse(refusal);
  }
  expect(refusedLines()).toEqual([1, 2]);
  using ledger = openLedger(files);
  ledger.open(bytes("a"), 1);
  ledger.open(bytes("b"), 2)?.acknowledge();
  expect(refusedLines()).toEqual([1]);
});

test("notes every refusal once, wherever runs are broken off", () => {
  const run = fc.record({ settled: fc.array(fc.boolean(), { maxLength: 12 }), save: fc.boolean() });
  fc.assert(
    fc.property(fc.array(fc.boolean(), { maxLength: 12 }), fc.array(run, { maxLength: 4 }), (isBad, runs) => {
      rmSync(files.state, { force: true });
      const play = (settled: readonly boolean[], save: boolean): Ledger => {
        const ledger = openLedger(files);
        const records = isBad.map((_, index) => ledger.open(bytes(index), index));
        for (const [index, record] of records.entries()) {
          if (settled[index] === false) continue;
          if (isBad[index] === true) record?.refuse(refusal);
          else record?.acknowledge();
        }
        if (save) ledger.save();
        ledger[Symbol.dispose]();
        return ledger;
      };
      for (const { settled, save } of runs) play(settled, save);
      const last = play([], false);
      const wanted = isBad.flatMap((bad, index) => (bad ? [index] : []));
      expect(last.counts).toEqual({ records: isBad.length, refused: wanted.length });
      expect(refusedLines()).toEqual(wanted);
      last.finish();
    }),
    { numRuns: 50 },
  );
});
