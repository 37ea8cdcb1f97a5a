import { defineConfig } from "vitest/config";

const folders = "{core,runtime,kafka,postgres,server,workers,sdk,cli,dev}";
// kafkajs sets timers in the past, of which Node warns once each.
const execArgv = ["--disable-warning=TimeoutNegativeWarning"];
// What is waited for comes at once or, on a machine that does much else, late: the second that is the default is too short.
const poll = { timeout: 10_000 };

export default defineConfig({
  test: {
    reporters: ["default", "./test/support/totals.ts"],
    coverage: { provider: "v8", include: [`${folders}/**/*.ts`], exclude: ["sdk/gen/**", "sdk/dist/**"] },
    projects: [
      {
        test: {
          name: "unit",
          include: [`${folders}/**/*.test.ts`],
          execArgv,
          expect: { poll },
          testTimeout: 20_000,
        },
      },
      {
        test: {
          name: "integration",
          include: ["test/**/*.test.ts"],
          globalSetup: "./test/support/services.ts",
          execArgv,
          expect: { poll },
          // Most suites wait more than they work: two at a time are done in little more than half the time, also on two
          // processors, which they share with a broker and a database.
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
          testTimeout: 30_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
});
