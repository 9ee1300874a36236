import { readFileSync } from "node:fs";

// Node 12 can parse this file: it is read before anything else.

/** The oldest Node.js that this package runs on, such as `22.19`. */
export const requiredNode = JSON.parse(
  readFileSync(new URL("../../package.json", import.meta.url), "utf8"),
).engines.node.replace(">=", "");

/**
 * Whether this version is older.
 * @param {string} version
 * @param {string} [required]
 */
export function isOlderNode(version, required = requiredNode) {
  const [major, minor] = required.split(".").map(Number);
  const [runningMajor, runningMinor] = version.split(".").map(Number);
  return runningMajor < major || (runningMajor === major && runningMinor < minor);
}
