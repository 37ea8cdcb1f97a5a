import { writeFileSync } from "node:fs";
import { settingsList, settingsPage } from "./settings-page.ts";
import { telemetryPage } from "./telemetry-page.ts";

// `npm run config` lists every setting with its value in this environment; with --markdown it writes
// docs/settings.md, and docs/telemetry.md too.

if (process.argv.includes("--markdown")) {
  writeFileSync(new URL("../docs/settings.md", import.meta.url), settingsPage());
  writeFileSync(new URL("../docs/telemetry.md", import.meta.url), telemetryPage());
} else {
  process.stdout.write(settingsList());
}
