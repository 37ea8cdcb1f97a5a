import { type Random } from "../server/hostile/random.ts";

/** Stands in every name, word and string that is made here, and in nothing that Weir writes itself. */
export const MARK = "Zq";

const WORDS = [
  MARK,
  `card${MARK}`,
  `${MARK}-9`,
  `com.${MARK}.order`,
  `'; drop table ${MARK} --`,
  `${MARK}$1::text`,
  `${MARK}😀`,
  `ΟΔΟΣ${MARK}`,
  `${MARK}\\`,
  `${MARK}%_`,
];
const FIELDS = [
  ..."id source type subject dataschema datacontenttype time receive_time severity tags partition offset".split(
    " ",
  ),
  ...`ext.tenant ext.n data.${MARK} data.${MARK}[*].x data[0] data."a ${MARK}".b[3][*] data.a.b.c.d.e.f.g`.split(
    " ",
  ),
];
const OPERATORS = ["=", "=", "=", "!=", "<", "<=", ">", ">=", ":", ":"];
const VALUES = [
  ..."5 -1.50 1e3 12345678901234567890123456789012345678 0.1 1e-30 true false null * WARN error2 14 now now-15m now+2d".split(
    " ",
  ),
  ...`2026-11-01T09:30:00Z '2026-11-01T10:30:00.5+01:00' ${MARK}* *${MARK}* a*${MARK}*b`.split(" "),
];
const TOKENS = [
  ..."( ) [ ] . .. : = == != < <= > >= => <> \" ' \\ * ** - -- ! & && | || , ~ ; AND OR NOT and or not".split(
    " ",
  ),
  ...`typ ext ext. data data. data.* data[-1] ${MARK}( 1e999 1e99999999 ${"9".repeat(50)} now-5y NaN`.split(
    " ",
  ),
  ..."\\u0000 \\u00 \\ud800 \\n \ud800 \0 \u00a0 \u2028 é".split(" "),
  "\n",
  "(".repeat(20),
  ")".repeat(20),
  "NOT ".repeat(20),
];

/** A text that somebody might send as a filter: sound, nearly sound, or nothing of the kind. */
export function createFilterText(random: Random): string {
  switch (random.below(8)) {
    case 0:
      return Array.from({ length: random.below(30) }, () => random.pick(TOKENS)).join(random.pick(["", " "]));
    case 1:
      return random.bytes(random.below(80)).toString(random.pick(["utf8", "latin1", "utf16le"]));
    case 2: {
      const unit = random.pick([...TOKENS, ...VALUES, condition(random)]);
      return unit.repeat(1 + random.below(Math.ceil(400 / unit.length)));
    }
    case 3:
    case 4:
      return damaged(random, expression(random, 3));
    default:
      return expression(random, 3);
  }
}

function expression(random: Random, depth: number): string {
  const parts = Array.from({ length: 1 + random.below(4) }, () => term(random, depth));
  return parts.reduce((all, part) => all + random.pick([" ", " AND ", " OR "]) + part);
}

function term(random: Random, depth: number): string {
  const sign = random.pick(["", "", "", "-", "NOT "]);
  return sign + (depth > 0 && random.chance(0.2) ? `(${expression(random, depth - 1)})` : condition(random));
}

function condition(random: Random): string {
  if (random.chance(0.2)) return random.chance(0.5) ? random.pick(WORDS) : quoted(random);
  const space = random.pick(["", " "]);
  const value = random.chance(0.4) ? quoted(random) : random.pick(VALUES);
  return random.pick(FIELDS) + space + random.pick(OPERATORS) + space + value;
}

function quoted(random: Random): string {
  const quote = random.pick(['"', "'"]);
  const text = Array.from({ length: random.below(4) }, () => random.pick(WORDS)).join(
    random.pick(["", " ", "*"]),
  );
  return quote + text.replaceAll(/[\\"']/g, "\\$&") + quote;
}

/** The text with a few pieces put in, left out or doubled. */
function damaged(random: Random, text: string): string {
  let result = text;
  for (let times = 1 + random.below(3); times > 0; times -= 1) {
    const [at, length] = [random.below(result.length + 1), random.below(6)];
    const piece = random.pick([random.pick(TOKENS), result.slice(at, at + length).repeat(2), ""]);
    result = result.slice(0, at) + piece + result.slice(at + length);
  }
  return result;
}
