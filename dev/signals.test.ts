import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";

const MODULE = pathToFileURL(join(import.meta.dirname, "signals.ts")).href;

/** Prints a line each 10 ms, and goes on with that for a second after it was asked to end. */
const PROGRAM = `
  import { listenForTheEnd } from ${JSON.stringify(MODULE)};
  let asked = 0;
  setInterval(() => process.stdout.write("a line\\n"), 10);
  listenForTheEnd({
    say: (line) => process.stdout.write(line + "\\n"),
    kill: () => process.stderr.write("killed "),
    end() {
      asked += 1;
      setTimeout(() => process.stderr.write("asked " + asked, () => process.exit()), 1_000);
    },
  });
`;

it("asks for the end, once, where nobody reads the output any more", async () => {
  const child = spawn(process.execPath, ["--input-type=module", "--eval", PROGRAM], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const complaints = text(child.stderr);
  await once(child.stdout, "data");
  child.stdout.destroy();
  const [code] = (await once(child, "exit")) as [number | null];
  expect({ code, complaints: await complaints }).toEqual({ code: 0, complaints: "asked 1" });
});
