import { type ANY_ELEMENT } from "../terms.ts";

// What a filter means: the one tree that is parsed from text, printed in canonical form, evaluated in the process and compiled
// to SQL. It is two-valued: a comparison with what is absent or of another type is false, and `not` inverts. `a != b` is
// `not (a = b)`.

/** A filter; see docs/filter.md for the language. Without one (undefined, where a filter is optional) all events match. */
export type Filter =
  | { readonly kind: "and" | "or"; /** Two or more, none of the same kind. */ readonly of: readonly Filter[] }
  | { readonly kind: "not"; /** No `not`. */ readonly of: Filter }
  | Condition;

/** A filter without and, or, not. */
export type Condition = Comparison | Glob | Presence | Text;

/** `field op value`, where the field and the value are of one kind; anything else is false. */
export type Comparison =
  | {
      readonly kind: "compare";
      readonly field: StringField;
      readonly op: Operator;
      readonly value: StringValue;
    }
  | {
      readonly kind: "compare";
      readonly field: ExtensionField;
      readonly op: Operator;
      readonly value: StringValue | NumberValue;
    }
  | {
      readonly kind: "compare";
      readonly field: DataField;
      readonly op: Operator;
      readonly value: StringValue | NumberValue;
    }
  | { readonly kind: "compare"; readonly field: DataField; readonly op: "="; readonly value: ConstantValue }
  | { readonly kind: "compare"; readonly field: TimeField; readonly op: Operator; readonly value: TimeValue }
  | {
      readonly kind: "compare";
      readonly field: SeverityField;
      readonly op: Operator;
      readonly value: SeverityValue;
    }
  | {
      readonly kind: "compare";
      readonly field: PositionField;
      readonly op: Operator;
      readonly value: NumberValue;
    }
  | {
      readonly kind: "compare";
      readonly field: TagsField;
      /** Of any of the tags. */ readonly op: "=";
      readonly value: StringValue;
    };

/** Strings are ordered by their UTF-8 bytes. */
export type Operator = "=" | "<" | "<=" | ">" | ">=";

/** A string with `*` in it: the literal runs around each `*`, two or more, the first and the last often empty. */
export interface Glob {
  readonly kind: "glob";
  readonly field: StringField | ExtensionField | DataField | TagsField;
  readonly runs: readonly string[];
}

/** `field:*`: the event has one. For data: the path leads somewhere, be it to null. For tags: there is one at least. */
export interface Presence {
  readonly kind: "present";
  readonly field: Field;
}

/** A bare word or a quoted phrase. */
export interface Text {
  readonly kind: "text";
  readonly text: string;
}

/** What can be asked about. */
export type Field =
  | StringField
  | ExtensionField
  | DataField
  | TimeField
  | SeverityField
  | PositionField
  | TagsField;

/** Attributes that are text. */
export interface StringField {
  readonly kind: "string";
  readonly name: "id" | "source" | "type" | "subject" | "dataschema" | "datacontenttype";
}

/** An extension attribute. With a number it is compared as one, where its text is a JSON number. */
export interface ExtensionField {
  readonly kind: "extension";
  readonly name: string;
}

/** A place in a JSON payload. With `[*]` in the path, whatever is true of one of the places is true. */
export interface DataField {
  readonly kind: "data";
  readonly path: readonly Segment[];
}

/** A member of an object, an element of an array counted from 0, or any element. */
export type Segment = string | number | typeof ANY_ELEMENT;

/** Compared to the microsecond; `time` of an event without one is its receive_time. */
export interface TimeField {
  readonly kind: "time";
  readonly name: "time" | "receive_time";
}

/** The OpenTelemetry severity number, 1 to 24. */
export interface SeverityField {
  readonly kind: "severity";
}

/** Where the event stands on the log. */
export interface PositionField {
  readonly kind: "position";
  readonly name: "partition" | "offset";
}

/** The tags, of which each is looked at. */
export interface TagsField {
  readonly kind: "tags";
}

/** Text, compared exactly. */
export interface StringValue {
  readonly kind: "string";
  readonly text: string;
}

/** A number of up to 38 digits, compared exactly. */
export interface NumberValue {
  readonly kind: "number";
  /** Plain decimal notation without superfluous zeros or sign: "0", "-1.5", "1000". */
  readonly decimal: string;
}

/** `true`, `false`, `null`. */
export interface ConstantValue {
  readonly kind: "constant";
  readonly value: boolean | null;
}

/** A moment. */
export type TimeValue =
  | { readonly kind: "time"; /** Microseconds since 1970. */ readonly micros: bigint }
  | {
      readonly kind: "now";
      /** Milliseconds from the moment of asking; negative is earlier. */ readonly plusMs: number;
    };

/** A severity by its number (`low` = `high`) or the range of a name: equal is within, below and above are outside. */
export interface SeverityValue {
  readonly kind: "severity";
  readonly low: number;
  readonly high: number;
}
