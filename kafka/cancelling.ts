/** Items that are cancelled when the signal is raised that each depends on. */
export interface Cancelling<T> {
  add(signal: AbortSignal, item: T): void;
  /** Lets go of an item that is done; nothing happens where it was never added. */
  remove(signal: AbortSignal, item: T): void;
}

/** One listener for a signal, however many items depend on it: a signal compares a new one with each that it has. */
export function createCancelling<T>(cancel: (item: T) => void): Cancelling<T> {
  const groups = new Map<AbortSignal, { readonly items: Set<T>; readonly onAbort: () => void }>();
  return {
    add(signal, item) {
      let group = groups.get(signal);
      if (group === undefined) {
        const items = new Set<T>();
        group = { items, onAbort: () => items.forEach(cancel) };
        groups.set(signal, group);
        signal.addEventListener("abort", group.onAbort);
      }
      group.items.add(item);
    },
    remove(signal, item) {
      const group = groups.get(signal);
      if (!group?.items.delete(item) || group.items.size > 0) return;
      groups.delete(signal);
      signal.removeEventListener("abort", group.onAbort);
    },
  };
}
