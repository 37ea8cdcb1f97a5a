import { spawnSync } from "node:child_process";
import {
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

// Which folder may import which, and which library belongs to whom, is shown by doing it: a throwaway tree with the
// repository's own configuration has a file for every pair, and the compiler and the linter must refuse the right ones.

const root = fileURLToPath(new URL("../..", import.meta.url));

const FOLDERS = [
  "core",
  "runtime",
  "kafka",
  "postgres",
  "sdk",
  "cli",
  "server",
  "workers",
  "dev",
  "test",
] as const;
type Folder = (typeof FOLDERS)[number];

const MAY_IMPORT: Readonly<Record<Folder, readonly Folder[]>> = {
  core: [],
  runtime: ["core"],
  kafka: ["core", "runtime"],
  postgres: ["core", "runtime"],
  sdk: ["core"],
  cli: ["sdk"],
  server: ["core", "runtime", "kafka", "postgres", "sdk"],
  workers: ["core", "runtime", "kafka", "postgres"],
  dev: ["core", "runtime"],
  test: ["core", "runtime", "kafka", "postgres", "sdk", "cli", "server", "workers", "dev"],
};

const PACKAGES: readonly Folder[] = ["sdk", "cli"];

const LIBRARIES: Readonly<Record<string, readonly Folder[]>> = {
  "node:fs": ["cli", "runtime", "kafka", "postgres", "server", "workers", "dev"],
  "node:fs/promises": ["cli", "runtime", "kafka", "postgres", "server", "workers", "dev"],
  fs: [],
  kafkajs: ["kafka"],
  "@platformatic/kafka": ["kafka"],
  pg: ["postgres"],
  zod: ["runtime", "dev"],
  pino: ["runtime"],
  "pino-pretty": ["runtime"],
  "@opentelemetry/sdk-metrics": ["runtime"],
  "@opentelemetry/api": ["runtime", "server"],
  "@connectrpc/connect": ["sdk", "server"],
  "@connectrpc/connect/protocol-connect": ["sdk", "server"],
  "@connectrpc/connect-node": ["server"],
  "@connectrpc/connect-web": ["sdk"],
  "@bufbuild/protobuf": ["sdk", "server"],
  "@bufbuild/protobuf/wkt": ["sdk", "server"],
  jose: ["server", "dev"],
  cors: ["server"],
};

/** How a file reaches another folder, as our code writes it and as somebody may try it. */
function specifiers(to: Folder): readonly string[] {
  if (to === "sdk") return ["#gen/x.ts", "../sdk/gen/x.ts"];
  return `#${to}/*` in imports ? [`#${to}/x.ts`, `../${to}/x.ts`] : [`../${to}/x.ts`];
}

const { imports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  readonly imports: object;
};

let tree: string;
beforeAll(() => {
  tree = mkdtempSync(join(tmpdir(), "weir-imports-"));
  for (const file of ["package.json", "tsconfig.base.json", "tsconfig.json"]) {
    copyFileSync(join(root, file), join(tree, file));
  }
  // The compiler's cache lies in node_modules, so the tree has one of its own.
  mkdirSync(join(tree, "node_modules"));
  symlinkSync(join(root, "node_modules/@types"), join(tree, "node_modules/@types"));
  const lint = JSON.parse(readFileSync(join(root, ".oxlintrc.json"), "utf8")) as {
    options: { typeAware: boolean };
  };
  lint.options.typeAware = false;
  write(".oxlintrc.json", JSON.stringify(lint));
  for (const folder of FOLDERS) {
    mkdirSync(join(tree, folder));
    cpSync(join(root, folder, "tsconfig.json"), join(tree, folder, "tsconfig.json"));
    write(`${folder}/x.ts`, "export const x = 1;\n");
  }
  write("sdk/gen/x.ts", "export const x = 1;\n");
});
afterAll(() => rmSync(tree, { recursive: true, force: true }));

function write(path: string, text: string): void {
  mkdirSync(join(tree, path, ".."), { recursive: true });
  writeFileSync(join(tree, path), text);
}

/** What the compiler says of the whole tree, as `file code`. */
function compile(): readonly string[] {
  // One project after another: a forbidden file is emitted by the project that imports it as well as by its own, and a third
  // that reads it in the middle of that finds it empty (TS2306, now and then).
  const args = ["-b", "--builders", "1", "--pretty", "false"];
  const { stdout } = spawnSync(join(root, "node_modules/.bin/tsc"), args, { cwd: tree, encoding: "utf8" });
  return [...stdout.matchAll(/^(\S+)\(\d+,\d+\): error (TS\d+)/gm)].map(
    ([, file, code]) => `${file} ${code}`,
  );
}

/** What the linter says of the whole tree, as `file rule`. */
function lint(): readonly string[] {
  const { stdout } = spawnSync(join(root, "node_modules/.bin/oxlint"), ["--format", "unix"], {
    cwd: tree,
    encoding: "utf8",
  });
  return [...stdout.matchAll(/^(\S+?):\d+:\d+: .*\/\w+\(([\w-]+)\)\]$/gm)].map(
    ([, file, rule]) => `${file} ${rule}`,
  );
}

const PAIRS = FOLDERS.flatMap((from) =>
  FOLDERS.filter((to) => to !== from).flatMap((to) =>
    specifiers(to).map((specifier) => ({ from, to, specifier, allowed: MAY_IMPORT[from].includes(to) })),
  ),
);
/** The compiler lets a folder reach what those that it may import do: there the linter is alone. */
const isWithinReach = ({ from, to }: { readonly from: Folder; readonly to: Folder }): boolean =>
  MAY_IMPORT[from].some((near) => near === to || isWithinReach({ from: near, to }));
const isByName = ({ specifier }: (typeof PAIRS)[number]): boolean => specifier.startsWith("#");
const fileOf = (pair: (typeof PAIRS)[number]): string =>
  `${pair.from}/to-${pair.to}-by-${isByName(pair) ? "name" : "path"}.ts`;

/** Our code's own way: by name, but by path in packages, which have a package.json of their own, and in the tests. */
const isOurWay = (pair: (typeof PAIRS)[number]): boolean =>
  pair.from === "test" || isByName(pair) !== PACKAGES.includes(pair.from);

describe("between folders", () => {
  let compiled: readonly string[];
  let linted: readonly string[];
  beforeAll(() => {
    // One after the other: the compiler names a forbidden file once, at whoever comes to it first.
    compiled = [true, false].flatMap((byName) => {
      const pairs = PAIRS.filter((pair) => isByName(pair) === byName);
      for (const pair of pairs) write(fileOf(pair), `export { x } from "${pair.specifier}";\n`);
      const faults = compile();
      for (const pair of pairs) rmSync(join(tree, fileOf(pair)));
      return faults;
    });
    for (const pair of PAIRS) write(fileOf(pair), `export { x } from "${pair.specifier}";\n`);
    linted = lint();
    for (const pair of PAIRS) rmSync(join(tree, fileOf(pair)));
  }, 120_000);

  it("has pairs of both kinds", () => {
    expect(PAIRS.filter((pair) => pair.allowed).length).toBeGreaterThan(25);
    expect(PAIRS.filter((pair) => !pair.allowed).length).toBeGreaterThan(60);
  });

  it.each(PAIRS.filter((pair) => !isWithinReach(pair)))(
    "the compiler refuses $specifier in $from",
    (pair) => {
      // TS6307: not in a project that this one references.
      expect(compiled).toContain(`${fileOf(pair)} TS6307`);
    },
  );

  it.each(PAIRS.filter((pair) => !pair.allowed))("the linter refuses $specifier in $from", (pair) => {
    expect(linted).toContain(`${fileOf(pair)} no-restricted-imports`);
  });

  it("the compiler takes all others", () => {
    const files = PAIRS.filter((pair) => pair.allowed).map(fileOf);
    expect(compiled.filter((fault) => files.some((file) => fault.startsWith(`${file} `)))).toEqual([]);
  });

  it("the linter takes all others that are written in our way", () => {
    const files = PAIRS.filter((pair) => pair.allowed && isOurWay(pair)).map(fileOf);
    expect(files.length).toBeGreaterThan(20);
    expect(linted.filter((fault) => files.some((file) => fault.startsWith(`${file} `)))).toEqual([]);
  });
});

describe("of libraries", () => {
  const USES = FOLDERS.filter((folder) => folder !== "test").flatMap((folder) =>
    Object.entries(LIBRARIES).map(([library, owners], index) => ({
      folder,
      library,
      file: `${folder}/library-${index}.ts`,
      allowed: owners.includes(folder),
    })),
  );
  const FORMS = [
    (library: string) => `export * from "${library}";\n`,
    (library: string) => `import type { x } from "${library}";\nexport type X = typeof x;\n`,
    (library: string) => `export const x = await import("${library}");\n`,
  ];
  let linted: readonly string[];
  beforeAll(() => {
    USES.forEach(({ file, library }, index) => write(file, FORMS[index % FORMS.length]?.(library) ?? ""));
    linted = lint();
    for (const { file } of USES) rmSync(join(tree, file));
  }, 60_000);

  it.each(USES)("$library in $folder: $allowed", ({ file, allowed }) => {
    expect(linted.includes(`${file} no-restricted-imports`)).toBe(!allowed);
  });
});

describe("of the world around", () => {
  const FILES: Readonly<Record<string, string>> = {
    "core/reads-process.ts": "export const x: unknown = process.pid;\n",
    "core/fetches.ts": "export const x: unknown = fetch;\n",
    "core/waits.ts": "export const x: unknown = setTimeout;\n",
    "core/buffers.ts": "export const x: unknown = Buffer;\n",
    "core/filter/imports-core.ts": 'export { x } from "../x.ts";\n',
    "core/filter/imports-kafka.ts": 'export { x } from "../../kafka/x.ts";\n',
    "core/filter/imports-node.ts": 'export * from "node:fs";\n',
    "sdk/buffers.ts": "export const x: unknown = Buffer;\n",
    "kafka/reads-environment.ts": "export const x: unknown = process.env;\n",
    "runtime/config.ts": "export const x: unknown = process.env;\n",
    "server/prints.ts": 'console.log("x");\nexport {};\n',
  };
  let faults: readonly string[];
  beforeAll(() => {
    for (const [path, text] of Object.entries(FILES)) write(path, text);
    faults = [...compile(), ...lint()];
  }, 60_000);

  it.each([
    ["core/reads-process.ts", "TS2591"],
    ["core/fetches.ts", "TS2304"],
    ["core/waits.ts", "TS2304"],
    ["core/buffers.ts", "TS2591"],
    ["core/filter/imports-kafka.ts", "no-restricted-imports"],
    ["core/filter/imports-node.ts", "no-restricted-imports"],
    ["sdk/buffers.ts", "TS2591"],
    ["kafka/reads-environment.ts", "no-process-env"],
    ["server/prints.ts", "no-console"],
  ])("%s is refused with %s", (file, rule) => {
    expect(faults).toContain(`${file} ${rule}`);
  });

  it("a folder of core may import core", () => {
    expect(faults.filter((fault) => fault.startsWith("core/filter/imports-core.ts "))).toEqual([]);
  });

  it("only runtime/config.ts reads the environment", () => {
    expect(faults.filter((fault) => fault.startsWith("runtime/config.ts "))).toEqual([]);
  });
});
