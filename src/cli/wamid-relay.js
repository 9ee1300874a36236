#!/usr/bin/env node
// Stops with one line where the command cannot run. better-sqlite3 would crash an old Node with a
// segmentation fault, and Bun and Deno lack parts of Node that the relay uses. Node 12 can parse
// this file. launch.js does the rest.
import { existsSync } from "node:fs";
import { isOlderNode, requiredNode } from "../model/node-version.js";

const { bun, deno, node } = process.versions;
const unsupported = bun
  ? `Bun ${bun}`
  : deno
    ? `Deno ${deno}`
    : isOlderNode(node)
      ? `Node.js ${node}`
      : null;

if (unsupported !== null) {
  // Only a clone on Linux has a Node of its own, which "npm run" uses.
  const own = new URL(`../../node_modules/node-linux-${process.arch}/bin/node`, import.meta.url);
  const advice = existsSync(own)
    ? 'In this clone, run "npm run -s relay -- <command>".'
    : "Install a current version from https://nodejs.org/en/download and run the command again.";
  stop(`wamid-relay needs Node.js ${requiredNode} or later, and this is ${unsupported}. ${advice}`);
} else if (
  import.meta.url.includes("/node_modules/") &&
  existsSync(new URL("main.ts", import.meta.url))
) {
  stop(
    'This package of wamid-relay is not compiled. In a clone, run "npm run pack" and install the tarball that it makes.',
  );
} else {
  import("./launch.js");
}

function stop(message) {
  process.stderr.write(`${message}\n`);
  process.exitCode = 1;
}
