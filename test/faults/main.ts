import { loadavg } from "node:os";
import { parseArgs } from "node:util";

import { type Part } from "./platform.ts";
import { torture } from "./torture.ts";

// `npm run torture -- NAME`: a long run of faults, with its figures as JSON. Ends with status 1 where an event was lost,
// doubled, altered or invented, poison is no dead letter, or an offset of the log is unaccounted for.

interface Torture {
  readonly events: number;
  readonly kills: number;
  readonly parts: readonly Part[];
  /** The share of the events that poison is written beside. */
  readonly poison: number;
}

const TORTURES: Readonly<Record<string, Torture>> = {
  ingest: { events: 1_000_000, kills: 50, parts: ["server", "broker"], poison: 0 },
  persist: { events: 1_000_000, kills: 100, parts: ["worker", "broker", "PostgreSQL"], poison: 0.01 },
};

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { events: { type: "string" }, kills: { type: "string" }, seed: { type: "string" } },
});
const [name = ""] = positionals;
const chosen = Object.hasOwn(TORTURES, name) ? TORTURES[name] : undefined;
if (chosen === undefined) {
  process.stderr.write(
    `Usage: npm run torture -- NAME [--events N] [--kills N] [--seed N]. There are ${Object.keys(TORTURES).join(", ")}.\n`,
  );
  process.exit(2);
}
const events = Number(values.events ?? chosen.events);
const kills = Number(values.kills ?? chosen.kills);
const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
const result = await torture({
  events,
  poison: Math.round(events * chosen.poison),
  dataBytes: 300,
  kills,
  parts: chosen.parts,
  senders: "publisher",
  seed,
  say: (line) => void process.stderr.write(`${new Date().toISOString()} ${line}\n`),
});
const { poison, audit } = result;
const faults = [
  [result.lost, result.doubled, result.altered, result.invented],
  [poison.lost, poison.unlettered, poison.invented],
].flat(2);
const isWell =
  faults.length === 0 &&
  result.acknowledged === events &&
  result.rows === events &&
  poison.acknowledged === Math.round(events * chosen.poison) &&
  audit.stored === events &&
  audit.deadLetters === poison.rows &&
  audit.unaccounted === 0;
const perSecond = Math.round(events / result.sendingSeconds);
process.stdout.write(
  `${JSON.stringify({ isWell, seed, ...result, perSecond, load: loadavg()[0] }, undefined, 2)}\n`,
);
process.exitCode = isWell ? 0 : 1;
