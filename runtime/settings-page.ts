import { ConfigError, loadConfig, settingText } from "./config.ts";
import { SETTINGS } from "./settings.ts";
import { type AnyGroup, type Setting } from "./settings/setting.ts";

const GROUPS = Object.values<AnyGroup>(SETTINGS);

/** Every setting with its value in this environment; secrets are hidden. */
export function settingsList(): string {
  const lines = GROUPS.flatMap((group) => [
    group.title,
    ...Object.values(group.settings).flatMap((setting) => [
      `  ${setting.name} = ${currentValue(setting)}`,
      `      ${setting.meaning}`,
      `      ${setting.unit}; ${defaultOf(setting)}`,
    ]),
    "",
  ]);
  return lines.join("\n");
}

function currentValue(setting: Setting): string {
  const text = settingText(setting);
  if (text === undefined) return setting.default === undefined ? "(not set)" : shown(setting.default);
  return setting.secret === true ? "(set, hidden)" : text.replaceAll(USER_INFO, "://(hidden)@");
}

/** The user and password of a URL. */
const USER_INFO = /:\/\/[^/?#\s]*@/g;

function defaultOf(setting: Setting): string {
  if (setting.default !== undefined) return `default ${shown(setting.default)}`;
  return setting.required === true ? "required" : "no default";
}

function shown(value: string): string {
  return value === "" ? "(empty)" : value;
}

/** What is wrong with the settings of this environment, a fault a line, and a headline before them; none: nothing. */
export function settingsFaults(): readonly string[] {
  try {
    loadConfig(Object.keys(SETTINGS) as (keyof typeof SETTINGS)[]);
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const faults = error.faults.map((fault) => `  ${fault.name} ${fault.problem}`);
    return ["In this environment a process that reads them would not start:", ...faults];
  }
}

/** docs/settings.md. */
export function settingsPage(): string {
  const tables = GROUPS.flatMap((group) => [
    "",
    `## ${group.title}`,
    "",
    "| Variable | Default | Unit | Meaning |",
    "| --- | --- | --- | --- |",
    ...Object.values(group.settings).map((setting) => {
      const secret = setting.secret === true ? " Secret: never printed." : "";
      return `| \`${setting.name}\` | ${defaultCell(setting)} | ${setting.unit} | ${setting.meaning}${secret} |`;
    }),
  ]);
  return `${[HEAD, ...tables].join("\n")}\n`;
}

function defaultCell(setting: Setting): string {
  if (setting.required === true) return "**required**";
  if (setting.default === undefined) return "–";
  return setting.default === "" ? "(empty)" : `\`${setting.default}\``;
}

const HEAD = `# Settings

Every setting is an environment variable. This page is written by \`npm run config -- --markdown\`
out of [runtime/settings](../runtime/settings); \`npm run config\` shows the values in the present environment.

A variable that is set to nothing counts as unset. A duration carries its unit: \`250ms\`, \`30s\`, \`10m\`, \`24h\`,
\`7d\`. A size does too: \`1024B\`, \`512KiB\`, \`64MiB\`, \`1GiB\`. A list has commas between its items. A process
reads the groups that it needs, refuses to start on a bad value and names every one; it warns of a \`WEIR_\` variable
that is none of these.`;
