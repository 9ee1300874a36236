#!/usr/bin/env node
// Stops with a clear message on a Node that is too old: better-sqlite3 would crash there with a segmentation fault.
// Node 12 can parse this file. launch.js does the rest.
import { existsSync, readFileSync } from "node:fs";

const { engines } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
const required = engines.node.replace(">=", "");
const [major, minor] = required.split(".").map(Number);
const [runningMajor, runningMinor] = process.versions.node.split(".").map(Number);

if (runningMajor > major || (runningMajor === major && runningMinor >= minor)) {
  import("./launch.js");
} else {
  // Only a clone on Linux has a Node of its own, which "npm run" uses.
  const own = new URL(`../../node_modules/node-linux-${process.arch}/bin/node`, import.meta.url);
  const advice = existsSync(own)
    ? 'In this clone, run "npm run -s relay -- <command>".'
    : "Install a current version from https://nodejs.org/en/download and run the command again.";
  process.stderr.write(`wamid-relay needs Node.js ${required} or later, and this is Node.js ${process.versions.node}. ${advice}\n`);
  process.exitCode = 1;
}
