import { writeFileSync } from "node:fs";
import { settingsList, settingsPage } from "./settings-page.ts";

// `npm run config` lists every setting with its value in this environment; with --markdown it writes docs/settings.md.

if (process.argv.includes("--markdown")) {
  writeFileSync(new URL("../docs/settings.md", import.meta.url), settingsPage());
} else {
  process.stdout.write(settingsList());
}
