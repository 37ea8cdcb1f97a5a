import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, "../..");

/** Programs may take this long, in milliseconds. */
const PATIENCE_MS = 120_000;

/** A customer's project, with the SDK as it would be published. */
export interface ScratchProject extends Disposable {
  readonly folder: string;
  /** The files of the SDK's tarball. */
  readonly packed: readonly string[];
  /** Writes a file into the project. */
  write(name: string, content: string): void;
  /** Runs a program in the project with the pinned Node first on the PATH; rejects, with its output, where it fails. */
  run(command: string, args: readonly string[], env?: Readonly<Record<string, string>>): Promise<string>;
}

/**
 * Builds and packs the SDK and installs the tarball into a new project of plain Node, beside tarballs of its peers made
 * from this repository's own: nothing is fetched.
 */
export async function installPackedSdk(): Promise<ScratchProject> {
  const folder = mkdtempSync(join(tmpdir(), "weir-sdk-"));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  const inProject: ScratchProject["run"] = async (command, args, env) => {
    const { stdout } = await run(command, args, {
      cwd: folder,
      env: { ...process.env, PATH: `${join(ROOT, "node_modules/.bin")}:${process.env["PATH"]}`, ...env },
      timeout: PATIENCE_MS,
      maxBuffer: 16 * 1024 * 1024,
    });
    return stdout;
  };
  try {
    // What an earlier build left behind would be packed, too.
    rmSync(join(ROOT, "sdk/dist"), { recursive: true, force: true });
    await inProject("tsc", ["-p", join(ROOT, "sdk/tsconfig.build.json")]);
    const peers = Object.keys(
      readJson<{ peerDependencies: object }>(join(ROOT, "sdk/package.json")).peerDependencies,
    );
    const sources = [join(ROOT, "sdk"), ...peers.map((name) => join(ROOT, "node_modules", name))];
    const packs = JSON.parse(
      await inProject("npm", [
        "pack",
        "--ignore-scripts",
        "--json",
        "--pack-destination",
        folder,
        ...sources,
      ]),
    ) as Pack[];
    writeFileSync(
      join(folder, "package.json"),
      JSON.stringify({
        name: "scratch",
        private: true,
        type: "module",
        dependencies: Object.fromEntries(packs.map(({ name, filename }) => [name, `file:./${filename}`])),
      }),
    );
    await inProject("npm", ["install", "--offline", "--ignore-scripts", "--no-audit", "--no-fund"]);
    return {
      folder,
      packed: packs.find(({ name }) => name === "@weir/sdk")?.files.map(({ path }) => path) ?? [],
      write: (name, content) => writeFileSync(join(folder, name), content),
      run: inProject,
      [Symbol.dispose]: remove,
    };
  } catch (error) {
    remove();
    throw error;
  }
}

/** The blocks of TypeScript in the SDK's README, each a program of its own. */
export function readmeSnippets(): readonly string[] {
  const readme = readFileSync(join(ROOT, "sdk/README.md"), "utf8");
  return [...readme.matchAll(/```ts\n(.*?)```/gs)].map(([, snippet]) => snippet!);
}

/** The part of `npm pack --json`'s answer that is used. */
interface Pack {
  readonly name: string;
  readonly filename: string;
  readonly files: readonly { readonly path: string }[];
}

function readJson<T>(path: string): T {
  return JSON.parse(readFileSync(path, "utf8")) as T;
}
