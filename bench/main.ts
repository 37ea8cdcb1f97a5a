// `npm run bench -- NAME`: a benchmark by its name. They print ratios; nothing is asserted, since a shared machine would
// decide.

/** A file for each, whose `run` is given the arguments after the name. */
const BENCHES: Readonly<Record<string, () => Promise<{ run(args: readonly string[]): Promise<void> }>>> = {
  ingest: () => import("./ingest.ts"),
  kafka: () => import("./kafka.ts"),
  persist: () => import("./persist.ts"),
  redrive: () => import("./redrive.ts"),
  search: () => import("./search.ts"),
  tail: () => import("./tail.ts"),
  telemetry: () => import("./telemetry.ts"),
};

const [name = "", ...args] = process.argv.slice(2);
const bench = Object.hasOwn(BENCHES, name) ? BENCHES[name] : undefined;
if (bench === undefined) {
  process.stderr.write(`Usage: npm run bench -- NAME. There are ${Object.keys(BENCHES).join(", ")}.\n`);
  process.exitCode = 2;
} else await (await bench()).run(args);
