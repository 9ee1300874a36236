#!/usr/bin/env -S node --min-semi-space-size=16 --max-semi-space-size=16 --no-allocation-site-pretenuring
// The flags: left to itself Node lets the space of new objects grow to 64 MB (bench/backlog shows a quarter more memory while
// draining), and at rest shrinks it to 1 MB, at which collecting it takes a fifth of a receiver's processor time
// (bench/ingest). And once a stall has let requests outlive some collections, V8 makes the like of them among the old for
// good, which costs a tenth more of it. The Dockerfile and the scripts of package.json give them too.
// Plain JavaScript that any Node since 12 can read: it must get as far as saying which Node is needed.
const major = Number(process.versions.node.split(".")[0]);
if (major < 24) {
  process.stderr.write(
    `wamid-relay needs Node 24 or newer; this is Node ${process.versions.node}. In a checkout, "npm ci" brings it along: start with "npm run -s relay -- …".\n`,
  );
  process.exit(1);
}
// Half of what starting costs is compiling, and it is the same each time: kept in a folder of the user's own, because whoever
// may write there may run code here. Where it cannot be written nothing is kept; NODE_DISABLE_COMPILE_CACHE=1 turns it off.
const cache = process.env.XDG_CACHE_HOME ?? (process.env.HOME === undefined ? undefined : `${process.env.HOME}/.cache`);
if (cache !== undefined && cache !== "") {
  const { enableCompileCache } = await import("node:module");
  enableCompileCache(`${cache}/wamid-relay`);
}
const { main } = await import("./main.ts");
process.exitCode = await main(process.argv.slice(2));
