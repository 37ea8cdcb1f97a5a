import { ANY_ELEMENT } from "../terms.ts";
import { compareDecimals, type Decimal, decimalOf, isDecimal } from "./decimal.ts";
import { type JsonNode } from "./examine.ts";
import { compareStrings } from "./strings.ts";
import { type Comparison, type NumberValue, type Operator, type Segment } from "./tree.ts";

/** Whether an operator holds of what stands so to its value: negative is smaller, positive larger. */
export const HOLDS: Readonly<Record<Operator, (order: number) => boolean>> = {
  "=": (order) => order === 0,
  "<": (order) => order < 0,
  "<=": (order) => order <= 0,
  ">": (order) => order > 0,
  ">=": (order) => order >= 0,
};

/** Whether something fulfils a comparison, where both are of one kind. */
export function nodeTest(op: Operator, value: Comparison["value"]): (node: JsonNode | undefined) => boolean {
  const holds = HOLDS[op];
  switch (value.kind) {
    case "string":
      if (op === "=") return (node) => node === value.text;
      return (node) => typeof node === "string" && holds(compareStrings(node, value.text));
    case "number": {
      const order = orderTo(value);
      return (node) => isNumber(node) && holds(order(node));
    }
    case "constant":
      return (node) => node === value.value;
    default:
      return () => false;
  }
}

function isNumber(node: JsonNode | undefined): node is number | Decimal {
  return typeof node === "number" || (typeof node === "object" && node !== null && isDecimal(node));
}

/** How a number stands to the given one, exactly. */
function orderTo({ decimal }: NumberValue): (node: number | Decimal) => number {
  const exact = decimalOf(decimal);
  if (exact === undefined) return () => Number.NaN;
  // The double of a payload says exactly what was sent, and so does that of so few digits.
  const double = exact.digits.length <= 15 ? Number(decimal) : undefined;
  return (node) => {
    if (typeof node !== "number") return compareDecimals(node, exact);
    if (double !== undefined) return node - double;
    return compareDecimals(decimalOf(String(node)) ?? exact, exact);
  };
}

const MAX_NUMERIC_EXTENSION = 100;
const LONG_EXPONENT = /[eE][+-]?\d{4}/;

/** What the text of an extension says as a number. */
export function numberOf(text: string | undefined): Decimal | undefined {
  if (text === undefined || text.length > MAX_NUMERIC_EXTENSION || LONG_EXPONENT.test(text)) return undefined;
  return decimalOf(text);
}

/**
 * Whether the test holds of one of the places that the path, from its segment `depth` on, leads to. It comes to each place once
 * at most, for only one path leads there.
 */
export function someAt(
  node: JsonNode,
  path: readonly Segment[],
  depth: number,
  test: (node: JsonNode) => boolean,
): boolean {
  const segment = path[depth];
  if (segment === undefined) return test(node);
  if (typeof node !== "object" || node === null || isDecimal(node)) return false;
  if (segment === ANY_ELEMENT)
    return isArray(node) && node.some((element) => someAt(element, path, depth + 1, test));
  if (isArray(node)) {
    const element = typeof segment === "number" ? node[segment] : undefined;
    return element !== undefined && someAt(element, path, depth + 1, test);
  }
  return (
    typeof segment === "string" &&
    Object.hasOwn(node, segment) &&
    someAt(node[segment]!, path, depth + 1, test)
  );
}

function isArray(node: object): node is readonly JsonNode[] {
  return Array.isArray(node);
}
