#!/usr/bin/env node
// Runs on any Node.js, to say so where it is too old for what follows.
const [major, minor] = process.versions.node.split(".").map(Number);
if (major < 24 || (major === 24 && minor < 2)) {
  process.stderr.write(
    `weir needs Node.js 24.2 or newer, and this is ${process.version}: run it as \`npx weir\` in the clone.\n`,
  );
  process.exit(2);
}
const { main } = await import("./main.ts");
process.exitCode = await main(process.argv.slice(2));
