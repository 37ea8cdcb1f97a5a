const EVERY_MS = 200;
const BAR_WIDTH = 24;

/** Shows what `line` gives, five times a second on one line, until it is disposed of; nothing where there is no terminal. */
export function showProgress(stream: NodeJS.WriteStream, line: () => string): Disposable {
  if (!stream.isTTY) return { [Symbol.dispose]: () => {} };
  const clear = (): void => void stream.write("\r\u001b[K");
  const draw = (): void => void stream.write(`\r\u001b[K${line().slice(0, stream.columns - 1)}`);
  const timer = setInterval(draw, EVERY_MS);
  draw();
  return {
    [Symbol.dispose]() {
      clearInterval(timer);
      clear();
    },
  };
}

/** Such as "[######------------------]  25 %". */
export function bar(done: number, total: number): string {
  const part = total === 0 ? 1 : Math.min(1, done / total);
  const filled = Math.round(part * BAR_WIDTH);
  const percent = String(Math.floor(part * 100)).padStart(3);
  return `[${"#".repeat(filled)}${"-".repeat(BAR_WIDTH - filled)}] ${percent} %`;
}

/** Such as "1,234,567". */
export function count(value: number): string {
  return Math.round(value).toLocaleString("en");
}

/** How many there were in a second, such as "1,234/s". */
export function rate(events: number, ms: number): string {
  return `${count(events / Math.max(ms / 1_000, 0.001))}/s`;
}
