/** What is to be done when signals are raised: of each signal one listener, however much that is. */
export interface Cancels {
  add(signal: AbortSignal, cancel: () => void): void;
  remove(signal: AbortSignal, cancel: () => void): void;
}

/** Nothing to be done yet. Node.js warns of an eleventh listener of one signal, and every one more costs. */
export function createCancels(): Cancels {
  const bySignal = new Map<AbortSignal, { readonly all: Set<() => void>; readonly listener: () => void }>();
  return {
    add(signal, cancel) {
      let each = bySignal.get(signal);
      if (each === undefined) {
        const all = new Set<() => void>();
        each = { all, listener: () => all.forEach((run) => run()) };
        bySignal.set(signal, each);
        signal.addEventListener("abort", each.listener);
      }
      each.all.add(cancel);
    },
    remove(signal, cancel) {
      const each = bySignal.get(signal);
      if (each?.all.delete(cancel) !== true || each.all.size > 0) return;
      signal.removeEventListener("abort", each.listener);
      bySignal.delete(signal);
    },
  };
}
