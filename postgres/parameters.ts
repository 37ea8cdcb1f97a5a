/** The values of one statement, in the order of their places in it. */
export interface Parameters {
  readonly values: readonly unknown[];
  /** Adds a value and gives its place, cast to its type: `$3::text`. */
  readonly bind: (value: unknown, type: string) => string;
}

/** No value yet. */
export function createParameters(): Parameters {
  const values: unknown[] = [];
  return {
    values,
    bind: (value, type) => {
      values.push(value);
      return `$${values.length}::${type}`;
    },
  };
}
