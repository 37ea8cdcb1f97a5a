import { expect, test } from "vitest";
import { PARTS } from "./platform.ts";
import { torture } from "./torture.ts";

const EVENTS = 20_000;
const POISON = 200;
const KILLS = 10;

test(`${EVENTS} events through ${KILLS} SIGKILLs of server, worker, broker and PostgreSQL: none lost, doubled or altered, ${POISON} records of poison dead letters, and every offset accounted for`, async () => {
  const seed = Math.floor(Math.random() * 2 ** 31);
  const say = (line: string): void => void process.stderr.write(`  faults: ${line}\n`);
  say(`seed ${seed}`);
  const result = await torture({
    events: EVENTS,
    poison: POISON,
    dataBytes: 1_500,
    kills: KILLS,
    parts: PARTS,
    senders: 64,
    seed,
    say,
  });
  say(JSON.stringify(result));
  expect(result).toMatchObject({
    acknowledged: EVENTS,
    rows: EVENTS,
    lost: [],
    doubled: [],
    altered: [],
    invented: [],
    poison: { acknowledged: POISON, lost: [], unlettered: [], invented: [] },
    audit: { stored: EVENTS, deadLetters: result.poison.rows, unaccounted: 0 },
  });
  expect(result.poison.letters).toBe(result.poison.rows);
  expect(Object.values(result.killed).reduce((sum, count) => sum + count, 0)).toBe(KILLS);
}, 600_000);
