import { quote } from "../faults.ts";
import { ANY_ELEMENT, MAX_PATH } from "../terms.ts";
import { type Scan, type Written } from "./scan.ts";
import {
  type Condition,
  type DataField,
  type ExtensionField,
  type Field,
  type Filter,
  type Operator,
  type StringField,
  type TagsField,
} from "./tree.ts";
import { isNumeric, numberValue, plainText, severityValue, timeValue } from "./values.ts";

/** An operator as it is written; `:` is has. */
export type WrittenOperator = Operator | "!=" | ":";

/** A condition as it is written, which ends at the place reached. */
export interface Parts {
  readonly position: number;
  readonly field: Field;
  readonly op: WrittenOperator;
  readonly value: Written;
}

/** What a condition means; undefined where it means nothing, which is noted. */
export function filterOf(scan: Scan, { position, field, op, value }: Parts): Filter | undefined {
  if (op === ":" && !value.isQuoted && plainText(value) === "*") return { kind: "present", field };
  if (field.kind === "tags" && op !== ":") {
    const has = `tags:${scan.text.slice(value.position, scan.at)}`;
    const suggestion = op === "=" ? has : op === "!=" ? `NOT ${has}` : undefined;
    scan.fault(position, "An event has many tags: one is looked for with a colon.", {
      expected: "tags:VALUE",
      ...(suggestion !== undefined && { suggestion }),
    });
    return undefined;
  }
  if (field.kind === "data" && op === ":") return hasFilter(scan, position, field, value);
  const condition = conditionOf(scan, field, op === "!=" || op === ":" ? "=" : op, value);
  return op === "!=" && condition !== undefined ? { kind: "not", of: condition } : condition;
}

/** That a value is there, or an element of the array that is there. */
function hasFilter(scan: Scan, position: number, field: DataField, value: Written): Filter | undefined {
  if (field.path.length === MAX_PATH) {
    const metadata = { limit: String(MAX_PATH), actual: String(MAX_PATH + 1), unit: "segments" };
    scan.fault(position, `This path has no room for the elements that : looks at; there is =.`, metadata);
    return undefined;
  }
  const own = conditionOf(scan, field, "=", value);
  if (own === undefined || own.kind === "text") return undefined;
  const inside: DataField = { kind: "data", path: [...field.path, ANY_ELEMENT] };
  return { kind: "or", of: [own, { ...own, field: inside } as Condition] };
}

function conditionOf(scan: Scan, field: Field, op: Operator, value: Written): Condition | undefined {
  switch (field.kind) {
    case "time": {
      const time = timeValue(scan, value);
      return time && { kind: "compare", field, op, value: time };
    }
    case "severity": {
      const severity = severityValue(scan, value);
      return severity && { kind: "compare", field, op, value: severity };
    }
    case "position": {
      if (!isNumeric(value)) return wrongPosition(scan, field.name, value);
      const number = numberValue(scan, value);
      return number && { kind: "compare", field, op, value: number };
    }
    case "data":
      return value.isQuoted
        ? stringCondition(scan, field, op, value)
        : bareDataCondition(scan, field, op, value);
    case "extension": {
      if (!isNumeric(value)) return stringCondition(scan, field, op, value);
      const number = numberValue(scan, value);
      return number && { kind: "compare", field, op, value: number };
    }
    default:
      return stringCondition(scan, field, op, value);
  }
}

function wrongPosition(scan: Scan, name: string, value: Written): undefined {
  const text = plainText(value);
  const isQuotedNumber = isNumeric({ ...value, isQuoted: false });
  scan.fault(
    value.position,
    `${name} is a number, and ${quote(text)} is ${isQuotedNumber ? "text" : "none"}.`,
    {
      expected: "a number without quotes",
      ...(isQuotedNumber && { suggestion: text }),
    },
  );
}

const CONSTANTS: Readonly<Record<string, boolean | null>> = { true: true, false: false, null: null };

/** Of a value without quotes: a number, true, false, null, or else text. */
function bareDataCondition(
  scan: Scan,
  field: DataField,
  op: Operator,
  value: Written,
): Condition | undefined {
  if (isNumeric(value)) {
    const number = numberValue(scan, value);
    return number && { kind: "compare", field, op, value: number };
  }
  const text = plainText(value);
  const name = text.toLowerCase();
  if (!Object.hasOwn(CONSTANTS, name)) return stringCondition(scan, field, op, value);
  if (text !== name) {
    scan.fault(value.position, `${quote(text)} is written in lower case, or in quotes where it is text.`, {
      expected: "true, false, null or a quoted string",
      suggestion: name,
    });
    return undefined;
  }
  if (op === "=")
    return { kind: "compare", field, op, value: { kind: "constant", value: CONSTANTS[name] ?? null } };
  scan.fault(value.position, `Nothing is smaller or larger than ${name}.`, {
    expected: "a number or a string",
  });
  return undefined;
}

function stringCondition(
  scan: Scan,
  field: StringField | ExtensionField | DataField | TagsField,
  op: Operator,
  value: Written,
): Condition | undefined {
  if (value.runs.length > 1) {
    if (op === "=") return { kind: "glob", field, runs: value.runs };
    scan.fault(
      value.position,
      String.raw`A star stands for anything with = and != only; the character is \*.`,
      {
        expected: "a string without *",
      },
    );
    return undefined;
  }
  const string = { kind: "string", text: plainText(value) } as const;
  if (field.kind === "tags") return { kind: "compare", field, op: "=", value: string };
  return { kind: "compare", field, op, value: string } as Condition;
}
