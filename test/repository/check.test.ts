import { execFileSync, spawnSync } from "node:child_process";
import {
  appendFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { stripVTControlCharacters } from "node:util";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";

// `npm run check` on a copy of the repository that has gone astray: it must say so, and where.

const root = fileURLToPath(new URL("../..", import.meta.url));
const COPIED = [
  "package.json",
  "buf.yaml",
  "buf.gen.yaml",
  "core",
  "runtime",
  "dev",
  "proto",
  "sdk/gen",
  "docs",
];
const CONTRACT = "proto/weir/v1/ingest.proto";
// The parts that a contract and the pages out of the code concern; the others run on the real repository in every `npm test`.
const PARTS = ["contract", "contract-format", "contract-breaking", "generated", "settings", "telemetry"];

let copy: string;
beforeEach(() => {
  copy = mkdtempSync(join(tmpdir(), "weir-check-test-"));
  onTestFinished(() => rmSync(copy, { recursive: true, force: true }));
  copyHere(COPIED);
  symlinkSync(join(root, "node_modules"), join(copy, "node_modules"));
});

function copyHere(paths: readonly string[]): void {
  // What was built is built anew.
  const filter = (path: string): boolean => !/[/](dist|[.]tsbuildinfo)$/.test(path);
  for (const path of paths) cpSync(join(root, path), join(copy, path), { recursive: true, filter });
}

function git(...args: readonly string[]): void {
  // The person's own configuration (hooks, signing) has no part in it.
  const env = { ...process.env, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_SYSTEM: "/dev/null" };
  const author = ["-c", "user.name=test", "-c", "user.email=test@weir.example"];
  execFileSync("git", [...author, ...args], { cwd: copy, env, stdio: "pipe" });
}

function commitTo(branch: string): void {
  git("init", "--quiet", `--initial-branch=${branch}`);
  git("add", "proto", "buf.yaml");
  git("commit", "--quiet", "--message=The contract");
}

interface Checked {
  readonly status: number | null;
  readonly failed: readonly string[];
  readonly output: string;
}

function check(parts: readonly string[], variables: Readonly<Record<string, string>> = {}): Checked {
  const env = { ...process.env, ...variables };
  const run = spawnSync(process.execPath, [join(copy, "dev/check.ts"), ...parts], { encoding: "utf8", env });
  // A CI may ask its tools for colours.
  const output = stripVTControlCharacters(run.stdout + run.stderr);
  const failed = [...output.matchAll(/FAILED +(\S+)/g)].map(([, part]) => part ?? "");
  return { status: run.status, failed, output };
}

const edit = (path: string, change: (text: string) => string): void => {
  const file = join(copy, path);
  const [before, after] = [readFileSync(file, "utf8"), change(readFileSync(file, "utf8"))];
  expect(after).not.toBe(before);
  writeFileSync(file, after);
};

describe("npm run check", () => {
  it("passes where all is well", () => {
    commitTo("main");
    const { status, failed, output } = check(PARTS);
    expect(failed).toEqual([]);
    expect(output).toContain("compared with main");
    expect(status).toBe(0);
  });

  it("refuses a change that breaks the contract, and code that is not generated from it", () => {
    commitTo("main");
    edit(CONTRACT, (text) => text.replace("string reason = 3;", "string cause = 3;"));
    const { status, failed, output } = check(PARTS);
    expect(failed.toSorted()).toEqual(["contract-breaking", "generated"]);
    expect(output).toContain('Field "3" on message "Violation" changed name from "reason" to "cause"');
    expect(output).toContain("  sdk/gen/weir/v1/ingest_pb.ts\n");
    expect(status).toBe(1);
  });

  it("takes an addition to the contract", () => {
    commitTo("main");
    edit(CONTRACT, (text) =>
      text.replace("string reason = 3;", "string reason = 3;\n  // More.\n  string more = 4;"),
    );
    expect(check(["contract", "contract-format", "contract-breaking"]).failed).toEqual([]);
  });

  it("refuses a contract without comments, or out of form", () => {
    edit(CONTRACT, (text) => text.replace("string reason = 3;", "string reason = 3;\n    string more = 4;"));
    expect(check(["contract", "contract-format"]).failed.toSorted()).toEqual(["contract", "contract-format"]);
  });

  it("refuses generated code that was changed, is missing, or has lost its definition, and leaves it alone", () => {
    const generated = join(copy, "sdk/gen/weir/v1");
    appendFileSync(join(generated, "event_pb.ts"), "// By hand.\n");
    rmSync(join(generated, "search_pb.ts"));
    writeFileSync(join(generated, "old_pb.ts"), "export {};\n");
    // A temporary folder of its own shows that the check clears up behind itself.
    const temporary = join(copy, "temporary");
    mkdirSync(temporary);
    commitTo("main");
    const { failed, output } = check(["contract-breaking", "generated"], { TMPDIR: temporary });
    expect(failed).toEqual(["generated"]);
    expect(output.match(/ {2}sdk\/gen\/.*/g)).toEqual([
      "  sdk/gen/weir/v1/event_pb.ts",
      "  sdk/gen/weir/v1/old_pb.ts",
      "  sdk/gen/weir/v1/search_pb.ts",
    ]);
    expect(readFileSync(join(generated, "event_pb.ts"), "utf8")).toMatch(/By hand/);
    expect(readdirSync(temporary)).toEqual([]);
  });

  it("refuses pages of settings and telemetry that are behind", () => {
    edit("docs/settings.md", (text) => text.replace("`8080`", "`8081`"));
    edit("docs/telemetry.md", (text) => text.replace("dead_lettered", "lost"));
    const { failed, output } = check(["settings", "telemetry"]);
    expect(failed.toSorted()).toEqual(["settings", "telemetry"]);
    expect(output).toContain("npm run config -- --markdown");
  });
});

describe("of code and package, npm run check", () => {
  it("refuses what nothing uses: a file, an export, a package", () => {
    copyHere(["kafka", "postgres", "server", "workers", "sdk", "cli", "bench", "test", "knip.json"]);
    copyHere(["tsconfig.base.json", "tsconfig.json", "vitest.config.ts"]);
    writeFileSync(join(copy, "core/forgotten.ts"), "export const one = 1;\n");
    appendFileSync(join(copy, "core/admission.ts"), "export const forgotten = 1;\n");
    edit("package.json", (text) =>
      text.replace('"dependencies": {', '"dependencies": { "left-pad": "1.3.0",'),
    );
    const { failed, output } = check(["unused"]);
    expect(failed).toEqual(["unused"]);
    expect(output).toMatch(/^core[/]forgotten[.]ts/m);
    expect(output).toMatch(/^left-pad /m);
    expect(output).toMatch(/^forgotten /m);
  });

  it("refuses a package of which a file is missing, or whose types are", () => {
    copyHere(["sdk", "tsconfig.base.json"]);
    edit("sdk/package.json", (text) =>
      text
        .replace("./dist/sdk/index.d.ts", "./dist/sdk/moved.d.ts")
        .replace("./dist/sdk/admin.js", "./dist/sdk/moved.js"),
    );
    const { failed, output } = check(["sdk-build", "sdk-types", "sdk-package"]);
    expect(failed.toSorted()).toEqual(["sdk-package", "sdk-types"]);
    expect(output).toContain("moved.d.ts");
    expect(output).toContain("moved.js");
  });

  it("refuses a file that is not formatted", () => {
    copyHere([".oxfmtrc.json"]);
    appendFileSync(join(copy, "core/admission.ts"), "export const  twice = 2 ;\n");
    const { failed, output } = check(["format"]);
    expect(failed).toEqual(["format"]);
    expect(output.match(/^\S+[.](?:ts|mjs|json)\b/gm)).toEqual(["core/admission.ts"]);
  });
});

describe("the base of the contract", () => {
  it("is the remote's main branch where there is no other, as in a checkout of a CI", () => {
    commitTo("work");
    git("update-ref", "refs/remotes/origin/main", "HEAD");
    git("checkout", "--quiet", "--detach");
    edit(CONTRACT, (text) => text.replace("string reason = 3;", "string cause = 3;"));
    expect(check(["contract-breaking"]).failed).toEqual(["contract-breaking"]);
  });

  it("may be in a shallow clone", () => {
    commitTo("main");
    git("commit", "--quiet", "--allow-empty", "--message=More");
    const origin = join(copy, "origin");
    mkdirSync(origin);
    git("clone", "--quiet", "--bare", "--depth=1", `file://${copy}`, origin);
    rmSync(join(copy, ".git"), { recursive: true });
    cpSync(origin, join(copy, ".git"), { recursive: true });
    git("config", "core.bare", "false");
    edit(CONTRACT, (text) => text.replace("string reason = 3;", "string cause = 3;"));
    expect(check(["contract-breaking"]).failed).toEqual(["contract-breaking"]);
  });

  it.each([
    ["there is no main branch", () => commitTo("work")],
    ["this is no clone", () => {}],
    [
      "main has no contract yet",
      () => {
        git("init", "--quiet", "--initial-branch=main");
        git("commit", "--quiet", "--allow-empty", "--message=Begin");
      },
    ],
  ])("is done without where %s", (_, prepare) => {
    prepare();
    const { status, output } = check(["contract-breaking"]);
    expect(output).toContain("no main branch with a contract to compare with");
    expect(status).toBe(0);
  });
});

it("names the parts where it is asked for one that there is not", () => {
  const { status, output } = check(["typos"]);
  expect(output).toContain("No such part: typos. There are sdk-build, types");
  expect(status).toBe(2);
});
