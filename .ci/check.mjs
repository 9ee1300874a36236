// What `npm run check` runs, two at a time: on two cores, one after the other takes twice as long.
// Each prints when it has ended.
import { spawn } from "node:child_process";

/** The longest first. */
const commands = [
  "npm run -s tsc -- -p tsconfig.json",
  "npm run -s check:docs",
  "npm run -s tsc -- -p src/tsconfig.json --noEmit",
  "npm run -s tsc -- -p src/console/tsconfig.json",
  "npm run -s build:console",
  "biome check .",
  "depcruise --config .dependency-cruiser.mjs src",
  "node src/cli/wamid-relay.js config schema | cmp - config/relay.schema.json",
  "node .ci/reference/generate.ts --check",
  "node .ci/complete-lock.mjs --check",
];

let next = 0;
async function runOthers() {
  for (let command = commands[next++]; command !== undefined; command = commands[next++]) {
    const child = spawn(command, { shell: true, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding("utf8").on("data", (text) => {
        output += text;
      });
    const code = await new Promise((resolve) => child.once("close", resolve));
    process.stdout.write(`${code === 0 ? "ok    " : "FAILED"} ${command}\n${output}`);
    if (code !== 0) process.exitCode = 1;
  }
}
await Promise.all([runOthers(), runOthers()]);
