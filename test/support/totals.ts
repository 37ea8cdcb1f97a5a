import { type Reporter, type TestModule } from "vitest/node";

/** Ends a run with one plain line that any tool can read: `N passed, N failed, N skipped`. */
export default class Totals implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly unknown[]): void {
    const count = { passed: 0, failed: unhandled.length, skipped: 0, pending: 0 };
    for (const module of modules) {
      // A file that could not be loaded, or whose hooks failed, is a failure although none of its tests ran.
      if (module.state() === "failed" && module.errors().length > 0) count.failed++;
      for (const test of module.children.allTests()) count[test.result().state]++;
    }
    const skipped = count.skipped + count.pending;
    process.stdout.write(`${count.passed} passed, ${count.failed} failed, ${skipped} skipped\n`);
  }
}
