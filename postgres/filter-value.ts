import { type Glob, type Operator } from "#core/filter/tree.ts";

import { type Parameters } from "./parameters.ts";

/** SQL that is true of no row. */
export const NOTHING = "false";

/** Whether PostgreSQL can hold a text. What it cannot hold is in no row. */
export function isStorable(text: string): boolean {
  return !text.includes("\0") && text.isWellFormed();
}

/** `expression op text`, by code points; the expression is of collation "C". */
export function compareText(expression: string, op: Operator, text: string, { bind }: Parameters): string {
  if (isStorable(text)) return `${expression} ${op} ${bind(text, "text")}`;
  if (op === "=") return NOTHING;
  // No stored text has what is strange in this one: each is below or above it, as it is to what is left without that.
  const at = text.search(/\0|\p{Surrogate}/u);
  const before = text.slice(0, at);
  const isBelow = op === "<" || op === "<=";
  if (text[at] === "\0") return `${expression} ${isBelow ? "<=" : ">"} ${bind(before, "text")}`;
  return `${expression} ${isBelow ? "<" : ">="} ${bind(`${before}\ue000`, "text")}`;
}

/** The pattern of LIKE; undefined where no text that is stored can match. */
export function likePattern({ runs }: Glob): string | undefined {
  return runs.every(isStorable) ? runs.map((run) => run.replaceAll(/[\\%_]/g, "\\$&")).join("%") : undefined;
}

const MAX_INT8 = 2n ** 63n - 1n;

/** `expression op decimal` of a column of integers, written so that an index of the column serves it. */
export function compareInteger(
  expression: string,
  op: Operator,
  decimal: string,
  { bind }: Parameters,
): string {
  const { floor, isWhole } = floorOf(decimal);
  if (op === "=") return isWhole && isInt8(floor) ? `${expression} = ${bind(floor, "int8")}` : NOTHING;
  // Greater than 1.5 and greater than 1 are from 2 on; from 1.5 on is, too.
  const bound = isWhole && (op === "<" || op === ">=") ? floor : floor + 1n;
  const isBelow = op === "<" || op === "<=";
  if (!isInt8(bound)) return bound > 0n === isBelow ? "true" : NOTHING;
  return `${expression} ${isBelow ? "<" : ">="} ${bind(bound, "int8")}`;
}

function isInt8(value: bigint): boolean {
  return -MAX_INT8 <= value && value <= MAX_INT8;
}

/** The greatest integer that is not above a number in plain decimal notation, and whether it is the number itself. */
function floorOf(decimal: string): { readonly floor: bigint; readonly isWhole: boolean } {
  const [integer, fraction] = decimal.split(".");
  if (fraction === undefined) return { floor: BigInt(decimal), isWhole: true };
  return { floor: BigInt(integer!) - (decimal.startsWith("-") ? 1n : 0n), isWhole: false };
}
