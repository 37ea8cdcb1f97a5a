// `npm start`: installs what is missing, then starts the launcher on the pinned Node.js.
import { realpathSync } from "node:fs";
import { join } from "node:path";

import { prepare, root, run } from "./install.mjs";

const node = await prepare();
if (node === realpathSync(process.execPath)) await import("./start.ts");
else process.exitCode = await run(node, [join(root, "dev", "start.ts"), "--relayed"]);
