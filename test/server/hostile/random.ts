/** Numbers that look random and come out of a seed, so that a case can be had again. */
export interface Random {
  /** From 0 up to `below`, which it never is. */
  below(below: number): number;
  /** Whether something of this probability happens. */
  chance(probability: number): boolean;
  pick<T>(choices: readonly T[]): T;
  bytes(length: number): Buffer;
}

/** The numbers of a seed (mulberry32). */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let value = Math.imul(state ^ (state >>> 15), state | 1);
    value ^= value + Math.imul(value ^ (value >>> 7), value | 61);
    return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (limit: number): number => Math.floor(next() * limit);
  return {
    below,
    chance: (probability) => next() < probability,
    pick: (choices) => choices[below(choices.length)]!,
    bytes: (length) => Buffer.from(Array.from({ length }, () => below(256))),
  };
}
