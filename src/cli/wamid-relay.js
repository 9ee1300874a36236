#!/usr/bin/env node
// Stops with one line where the command cannot run. better-sqlite3 would crash an old Node with a
// segmentation fault, and Bun and Deno lack parts of Node that the relay uses. Node 12 can parse
// this file. launch.js does the rest.
import { existsSync } from "node:fs";
import { isOlderNode, requiredNode } from "../model/node-version.js";

const isSource = existsSync(new URL("main.ts", import.meta.url));
const isPackage = import.meta.url.includes("/node_modules/");
// The sources have `using`, and the compiled code has not.
const [program, required] =
  isSource && !isPackage ? ["A clone of wamid-relay", "24.0"] : ["wamid-relay", requiredNode];
const { bun, deno, node } = process.versions;
const unsupported = bun
  ? `Bun ${bun}`
  : deno
    ? `Deno ${deno}`
    : isOlderNode(node, required)
      ? `Node.js ${node}`
      : null;

if (unsupported !== null) {
  // Only a clone on Linux has a Node of its own, which "npm run" uses.
  const own = new URL(`../../node_modules/node-linux-${process.arch}/bin/node`, import.meta.url);
  const advice = existsSync(own)
    ? 'In this clone, run "npm run -s relay -- <command>".'
    : "Install a current version from https://nodejs.org/en/download and run the command again.";
  stop(`${program} needs Node.js ${required} or later, and this is ${unsupported}. ${advice}`);
} else if (isSource && isPackage) {
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
