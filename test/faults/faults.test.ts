import { expect, test } from "vitest";
import { PARTS } from "./platform.ts";
import { torture } from "./torture.ts";

const EVENTS = 20_000;
const KILLS = 10;

test(`${EVENTS} events through ${KILLS} SIGKILLs of server, worker, broker and PostgreSQL: none lost, doubled or altered`, async () => {
  const seed = Math.floor(Math.random() * 2 ** 31);
  const say = (line: string): void => void process.stderr.write(`  faults: ${line}\n`);
  say(`seed ${seed}`);
  const result = await torture({
    events: EVENTS,
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
  });
  expect(Object.values(result.killed).reduce((sum, count) => sum + count, 0)).toBe(KILLS);
}, 600_000);
