import { type Form } from "./forms.ts";

/** One setting: its variable, how its text is read, and what it means. */
export interface Setting {
  /** The environment variable. */
  readonly name: `WEIR_${string}`;
  readonly form: Form<unknown>;
  /** What stands where the variable is not set, as an operator would write it. */
  readonly default?: string;
  /** A process that reads its group does not start without it. */
  readonly required?: true;
  /** What the value counts. Durations and sizes carry their unit in the text itself. */
  readonly unit: string;
  /** What it does, a sentence for an operator. */
  readonly meaning: string;
  /** The value is never printed. */
  readonly secret?: true;
}

/** A setting that reads into a T: it has a default or is required, unless a T may be undefined. */
type SettingOf<T> = Setting & { readonly form: Form<Exclude<T, undefined>> } & (undefined extends T
    ? { readonly default?: never; readonly required?: never }
    : { readonly default: string } | { readonly required: true });

/** Takes note that the variable cannot be used; reading goes on so that every fault is found. */
export type Report = (name: `WEIR_${string}`, problem: string) => void;

/** What must hold across some settings of a group. */
export interface Rule<V> {
  /** It is judged where each of these could be read, whatever became of the group's others. */
  readonly of: readonly (keyof V)[];
  /** Looks at no values but those. */
  judge(values: V, report: Report): void;
}

/** Settings that one part of a process reads together: V as they are set, C as the part gets them. */
export interface Group<V, C = V> {
  readonly title: string;
  readonly settings: { readonly [K in keyof V]: SettingOf<V[K]> };
  /** What must hold across the settings, but for what `join` reports. */
  readonly rules?: readonly Rule<V>[];
  /** Joins what belongs together, once all settings could be read; reports why it cannot. */
  join(values: V, report: Report): C | undefined;
}

/** A group of whichever settings. */
export interface AnyGroup {
  readonly title: string;
  readonly settings: Readonly<Record<string, Setting>>;
  readonly rules?: readonly {
    readonly of: readonly string[];
    judge(values: never, report: Report): void;
  }[];
  join(values: never, report: Report): unknown;
}
