// `npm test`: installs what is missing, then runs every check and every test on the pinned Node.js. With arguments, such
// as `npm test -- core`, they go to vitest, and the checks are left out: a part was asked for.
import { join } from "node:path";

import { prepare, root, run } from "./install.mjs";

const node = await prepare();
const wanted = process.argv.slice(2);
const check = wanted.length > 0 ? 0 : await run(node, [join(root, "dev", "check.ts")]);
if (check === 0) {
  const vitest = join(root, "node_modules", "vitest", "vitest.mjs");
  process.exitCode = await run(node, [vitest, "run", ...wanted]);
} else {
  process.stdout.write("The checks failed, so no test was run (npm test -- PATH runs tests alone).\n");
  process.stdout.write("0 passed, 1 failed, 0 skipped\n");
  process.exitCode = check;
}
