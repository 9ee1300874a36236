#!/usr/bin/env node
// Plain JavaScript that any Node since 12 can read: it must get as far as saying which Node is needed.
const major = Number(process.versions.node.split(".")[0]);
if (major < 24) {
  process.stderr.write(
    `wamid-relay needs Node 24 or newer; this is Node ${process.versions.node}. In a checkout, "npm ci" brings it along: start with "npm run -s relay -- …".\n`,
  );
  process.exit(1);
}
const { main } = await import("./main.ts");
process.exitCode = await main(process.argv.slice(2));
