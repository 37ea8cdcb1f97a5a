import { createDatabase } from "#postgres/pool.ts";
import { defaultMonths, ensureMonth } from "#postgres/partitions.ts";
import { loadConfig } from "#runtime/config.ts";
import { createLogger } from "#runtime/log.ts";

/** How long one statement may run: the rows of a month are moved by one. */
const STATEMENT_TIMEOUT_MS = 3_600_000;
const OUTCOMES = {
  made: "made",
  attached: "is there already",
  detached: "was detached by retention: its rows stay in the default partition, see docs/operations.md",
};
const MONTH = /^(?!0000)[0-9]{4}-(0[1-9]|1[0-2])$/;

// `npm run partition -- 2024-01 2024-02`: makes the partitions of months and moves the rows of them there that are in the
// default partition. Without months: says which months those rows are of.
async function partition(months: readonly string[]): Promise<void> {
  const bad = months.filter((month) => !MONTH.test(month));
  if (bad.length > 0) throw new Error(`No month: ${bad.join(", ")}. Give each as YYYY-MM.`);
  const config = loadConfig(["process", "database"]);
  const { logLevel: level, logFormat: format } = config.process;
  await using db = createDatabase({
    ...config.database,
    poolSize: 1,
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
    applicationName: "weir partition",
    logger: await createLogger({ name: "partition", level, format }),
  });
  if (months.length === 0) {
    for (const { month, rows } of await defaultMonths(db)) process.stdout.write(`${month} ${rows}\n`);
  }
  for (const month of months) {
    process.stdout.write(`${month} ${OUTCOMES[await ensureMonth(db, month)]}\n`);
  }
}

try {
  await partition(process.argv.slice(2));
  process.exit(0);
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
}
