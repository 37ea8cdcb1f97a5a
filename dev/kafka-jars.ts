import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";

import { type Journal } from "./journal.ts";
import { runTool } from "./tool.ts";

const PARTIAL = "partial-";
const ABANDONED_MS = 3_600_000;
const POM = join(import.meta.dirname, "kafka-pom.xml");

/** Where what any clone of one user may share is kept: `$XDG_CACHE_HOME/weir`, else `~/.cache/weir`. */
export function cacheFolder(): string {
  const base = process.env["XDG_CACHE_HOME"];
  return resolve(base !== undefined && base !== "" ? base : join(homedir(), ".cache"), "weir");
}

/** The folder of Kafka's jars in this cache, named after what the pom asks for. It may not exist yet. */
export function kafkaJarsFolder(cache: string): string {
  const hash = createHash("sha256").update(readFileSync(POM)).digest("hex").slice(0, 12);
  return join(cache, `kafka-${hash}`);
}

/**
 * The folder of Kafka's jars, fetched by Maven the first time (about 43 MB) and found ever after, offline too. Two
 * processes at once are safe: each fetches into a folder of its own, and the first to be done gives it the name.
 */
export async function fetchKafkaJars(
  cache: string,
  options: {
    readonly say: (line: string) => void;
    readonly journal?: Journal | undefined;
    readonly signal?: AbortSignal | undefined;
  },
): Promise<string> {
  const folder = kafkaJarsFolder(cache);
  if (existsSync(folder)) return folder;
  options.say("downloading Apache Kafka with Maven (43 MB, once)");
  mkdirSync(cache, { recursive: true });
  removeAbandoned(cache);
  const partial = mkdtempSync(join(cache, PARTIAL));
  const removePartial = (): void => rmSync(partial, { recursive: true, force: true });
  process.once("exit", removePartial);
  try {
    const goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", `-DoutputDirectory=${partial}`];
    await runTool("mvn", ["-q", "-B", "-f", POM, ...goal], {
      failure: "Maven could not fetch Apache Kafka",
      journal: options.journal,
      signal: options.signal,
    });
    try {
      renameSync(partial, folder);
    } catch (error) {
      if (!existsSync(folder)) throw error;
    }
    return folder;
  } finally {
    removePartial();
    process.off("exit", removePartial);
  }
}

/** What downloads that were killed have left. */
function removeAbandoned(cache: string): void {
  for (const name of readdirSync(cache).filter((each) => each.startsWith(PARTIAL))) {
    const folder = join(cache, name);
    const changedAt = statSync(folder, { throwIfNoEntry: false })?.mtimeMs ?? 0;
    if (Date.now() - changedAt > ABANDONED_MS) rmSync(folder, { recursive: true, force: true });
  }
}
