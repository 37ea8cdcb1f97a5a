import { writeFileSync } from "node:fs";
import { unknownVariables } from "./config.ts";
import { settingsFaults, settingsList, settingsPage } from "./settings-page.ts";
import { telemetryPage } from "./telemetry-page.ts";

// `npm run config` lists every setting with its value in this environment, and on standard error what is wrong with it;
// it ends with 1 where a process would not start. With --markdown it writes docs/settings.md, and docs/telemetry.md too.

if (process.argv.includes("--markdown")) {
  writeFileSync(new URL("../docs/settings.md", import.meta.url), settingsPage());
  writeFileSync(new URL("../docs/telemetry.md", import.meta.url), telemetryPage());
} else {
  const faults = settingsFaults();
  process.stdout.write(settingsList());
  process.stderr.write([...faults, ...unknownVariables()].map((line) => `${line}\n`).join(""));
  process.exitCode = faults.length === 0 ? 0 : 1;
}
