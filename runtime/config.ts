import { SETTINGS } from "./settings.ts";
import { type AnyGroup, type Report, type Setting } from "./settings/setting.ts";

/** Variables by name, as `process.env` has them. */
export type Environment = Readonly<Record<string, string | undefined>>;

export type { JwtKeySource } from "./settings/jwt.ts";

/** All settings, checked and typed, by group. Durations are milliseconds, sizes are bytes. */
export type Config = {
  readonly [G in keyof typeof SETTINGS]: NonNullable<ReturnType<(typeof SETTINGS)[G]["join"]>>;
};

/** What is wrong with one variable. Never holds the value of a secret. */
export interface ConfigFault {
  readonly name: string;
  readonly problem: string;
}

/** The environment cannot be used; the message has a line for every variable at fault. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
  readonly faults: readonly ConfigFault[];

  constructor(faults: readonly ConfigFault[]) {
    const lines = faults.map((fault) => `  ${fault.name} ${fault.problem}`);
    super(`The configuration cannot be used (\`npm run config\` lists all settings):\n${lines.join("\n")}`);
    this.faults = faults;
  }
}

/**
 * Reads the groups of settings that a process needs, out of its environment. A variable that is set to nothing counts as unset.
 *
 * @throws ConfigError that names every variable at fault, not the first alone.
 */
export function loadConfig<G extends keyof Config>(
  groups: readonly G[],
  env: Environment = process.env,
): Pick<Config, G> {
  const faults: ConfigFault[] = [];
  const report: Report = (name, problem) => faults.push({ name, problem });
  // Once each, that no fault is told twice.
  const entries = [...new Set(groups)].map(
    (group) => [group, readGroup(env, SETTINGS[group], report)] as const,
  );
  if (faults.length > 0) throw new ConfigError(faults);
  return Object.fromEntries(entries) as Pick<Config, G>;
}

/** A setting's text in the environment, or undefined where it is unset or empty. */
export function settingText(setting: Setting, env: Environment = process.env): string | undefined {
  const value = env[setting.name];
  return value === undefined || value.trim() === "" ? undefined : value;
}

function readGroup(env: Environment, group: AnyGroup, report: Report): unknown {
  const values: Record<string, unknown> = {};
  const unread = new Set<string>();
  for (const [key, setting] of Object.entries(group.settings)) {
    const text = settingText(setting, env) ?? setting.default;
    if (text === undefined) {
      values[key] = undefined;
      if (setting.required !== true) continue;
      report(setting.name, `is not set. ${setting.meaning}`);
      unread.add(key);
      continue;
    }
    const read = setting.form.safeParse(text);
    if (read.success) values[key] = read.data;
    else {
      unread.add(key);
      for (const { path, message } of read.error.issues) {
        const [index] = path;
        report(setting.name, typeof index === "number" ? `(item ${index + 1}) ${message}` : message);
      }
    }
  }
  // Every fault that can be found is told now, so that putting one right does not bring the next to light.
  for (const rule of group.rules ?? []) {
    if (!rule.of.some((key) => unread.has(key))) rule.judge(values as never, report);
  }
  return unread.size === 0 ? group.join(values as never, report) : undefined;
}

/** One line for each WEIR_ variable that no setting reads, with the name that may have been meant. */
export function unknownVariables(env: Environment = process.env): readonly string[] {
  const known = Object.values<AnyGroup>(SETTINGS).flatMap((group) =>
    Object.values(group.settings).map((setting) => setting.name as string),
  );
  return Object.keys(env)
    .filter((name) => name.startsWith(PREFIX) && !FOREIGN.test(name) && !known.includes(name))
    .sort()
    .map((name) => {
      const own = name.slice(PREFIX.length);
      const nearest = known
        .map((other) => [distance(own, other.slice(PREFIX.length)), other] as const)
        .sort(([a], [b]) => a - b)[0];
      // Of a short name, what is left after three changes is another name.
      const isNear = nearest !== undefined && nearest[0] <= Math.min(3, own.length / 2);
      const hint = isNear ? `; did you mean ${nearest[1]}?` : "";
      return `${name} is not a setting and is ignored${hint}`;
    });
}

const PREFIX = "WEIR_";

/** The launcher's and the tests' own variables, which child processes inherit, and those of the command and the SDK's examples. */
const FOREIGN = /^WEIR_(DEV_|TEST_|URL$|TOKEN$)/;

/** How many letters must be put in, left out or changed to make one word of the other (Levenshtein). */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 0; i < a.length; i++) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j++) {
      const changed = (row[j] ?? 0) + (a[i] === b[j] ? 0 : 1);
      next.push(Math.min(changed, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
