const DECIMAL: unique symbol = Symbol("decimal");

/** A decimal number, exactly: 0.DIGITS × 10^exponent. Never mistaken for a value that JSON.parse made. */
export interface Decimal {
  readonly [DECIMAL]: true;
  readonly isNegative: boolean;
  /** Neither begins nor ends with 0; "" is zero. */
  readonly digits: string;
  readonly exponent: number;
}

// RFC 8259 § 6; the parts are the sign, the whole digits, the fraction's, the exponent.
const NUMBER = /^(-?)(0|[1-9]\d*)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;

/** The exact value of a JSON number; undefined where the text is none. Linear time. */
export function decimalOf(text: string): Decimal | undefined {
  const match = NUMBER.exec(text);
  if (match === null) return undefined;
  const [, sign = "", whole = "", fraction = "", exponent = "0"] = match;
  const all = whole + fraction;
  let [start, end] = [0, all.length];
  while (start < end && all[start] === "0") start += 1;
  while (end > start && all[end - 1] === "0") end -= 1;
  const isZero = start === end;
  return {
    [DECIMAL]: true,
    isNegative: sign === "-" && !isZero,
    digits: all.slice(start, end),
    exponent: isZero ? 0 : whole.length - start + Number(exponent),
  };
}

/** Whether a value is what {@link decimalOf} gave. */
export function isDecimal(value: object): value is Decimal {
  return DECIMAL in value;
}

/** Negative, 0 or positive, as the first is smaller, equal or larger. */
export function compareDecimals(a: Decimal, b: Decimal): number {
  const sign = signOf(a);
  if (sign !== signOf(b)) return sign - signOf(b);
  return sign < 0 ? compareSizes(b, a) : compareSizes(a, b);
}

function signOf({ isNegative, digits }: Decimal): number {
  return digits === "" ? 0 : isNegative ? -1 : 1;
}

function compareSizes(a: Decimal, b: Decimal): number {
  if (a.exponent !== b.exponent) return a.exponent - b.exponent;
  return a.digits === b.digits ? 0 : a.digits < b.digits ? -1 : 1;
}

/** How many digits plain notation needs; the 0 before a point is not counted. */
export function plainLength({ digits, exponent }: Decimal): number {
  return Math.max(1, digits.length, exponent, digits.length - exponent);
}

/** Plain notation, without superfluous zeros: "0", "-1.5", "1000". As long as {@link plainLength} says. */
export function toPlain({ isNegative, digits, exponent }: Decimal): string {
  const sign = isNegative ? "-" : "";
  if (digits === "") return "0";
  if (exponent <= 0) return `${sign}0.${"0".repeat(-exponent)}${digits}`;
  if (exponent >= digits.length) return sign + digits.padEnd(exponent, "0");
  return `${sign}${digits.slice(0, exponent)}.${digits.slice(exponent)}`;
}
