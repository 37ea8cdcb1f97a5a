import fc from "fast-check";
import { expect, test } from "vitest";
import { createBodyBudget, createFrameCount } from "./body-budget.ts";
import { reasonOf } from "../errors.ts";

test("bodies hold no more together than the budget, and give back what they held, once", () => {
  const budget = createBodyBudget(100);
  const [one, other] = [budget.open(), budget.open()];
  expect(one.hold(60)).toBeUndefined();
  expect(other.hold(40)).toBeUndefined();
  const refusal = other.hold(41);
  expect(refusal && reasonOf(refusal)).toBe("BODY_CAPACITY");
  expect(budget.heldBytes).toBe(100);
  expect(one.hold(10)).toBeUndefined();
  expect(other.hold(41)).toBeUndefined();
  one.release();
  one.release();
  expect(one.hold(50)).toBeUndefined();
  expect(budget.heldBytes).toBe(41);
  other.release();
  expect(budget.heldBytes).toBe(0);
});

test("a body of frames holds the frame that is not whole yet", () => {
  fc.assert(
    fc.property(
      fc.array(fc.nat(300), { maxLength: 6 }),
      fc.nat(200),
      fc.integer({ min: 1, max: 50 }),
      (sizes, last, step) => {
        const frames = sizes.map((size) => frame(size));
        const open = frame(last + 1).subarray(0, last);
        const body = Buffer.concat([...frames, open]);
        const count = createFrameCount();
        let held = 0;
        for (let at = 0; at < body.length; at += step) held = count(body.subarray(at, at + step));
        expect(held).toBe(open.length);
      },
    ),
  );
});

function frame(size: number): Buffer {
  const bytes = Buffer.alloc(5 + size);
  bytes.writeUInt32BE(size, 1);
  return bytes;
}
