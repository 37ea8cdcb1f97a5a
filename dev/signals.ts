const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
/** npm passes a Ctrl-C on that the terminal has sent to us already. */
const SAME_SIGNAL_MS = 500;
const PARENT_CHECK_MS = 500;

/**
 * Asks for the end once: on Ctrl-C, SIGTERM or SIGHUP, when npm, which started us, is gone, or when what we print can be
 * read by nobody any more, as behind a `| head`. Another signal, not just an echo of the first, does away with waiting.
 */
export function listenForTheEnd(handlers: {
  readonly end: () => void;
  readonly kill: () => void;
  readonly say: (line: string) => void;
}): void {
  let firstAt: number | undefined;
  const ask = (reason: string): void => {
    if (firstAt === undefined) {
      firstAt = performance.now();
      handlers.say(`stopping (${reason})`);
      handlers.end();
    } else if (performance.now() - firstAt > SAME_SIGNAL_MS) {
      handlers.say("stopping at once");
      handlers.kill();
    }
  };
  for (const signal of SIGNALS) process.on(signal, ask);
  for (const output of [process.stdout, process.stderr]) {
    // Each further line fails, too, those of the stop included: they hurry nobody.
    output.on("error", () => firstAt ?? ask("nobody reads the output any more"));
  }

  if (process.env["npm_lifecycle_event"] === undefined && !process.argv.includes("--relayed")) return;
  const parent = process.ppid;
  const watch = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(watch);
    ask("the process that started this one is gone");
  }, PARENT_CHECK_MS);
  watch.unref();
}
