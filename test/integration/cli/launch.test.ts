import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { serveFlags } from "../../../src/cli/node-flags.js";
import { entry, makeRelay } from "../../harness/relay-process.ts";
import { until } from "../../harness/until.ts";

const { engines } = JSON.parse(readFileSync("package.json", "utf8")) as { engines: { node: string } };
const required = engines.node.slice(">=".length);

/** The arguments of a `serve` that listens, started with these flags; it must end in order on SIGTERM to its first process id. */
async function argumentsOfServe(flags: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<string[]> {
  const relay = await makeRelay();
  const child = spawn(process.execPath, [...flags, entry, "serve", "--config", relay.settingsPath], {
    stdio: ["ignore", "pipe", "ignore"],
    env: { ...process.env, ...env },
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  let log = "";
  child.stdout.on("data", (chunk) => (log += chunk));
  const ended = once(child, "close");
  await until("it listens", () => log.includes('"listening"'));
  const seen = readFileSync(`/proc/${child.pid}/cmdline`, "utf8").split("\0");
  child.kill("SIGTERM");
  expect(await ended).toEqual([0, null]);
  expect(log).toContain('"stopped"');
  return seen.slice(1, seen.indexOf(entry));
}

test("serve restarts itself with its flags, in the same process", async () => {
  expect(await argumentsOfServe([])).toEqual(serveFlags);
});

test("serve keeps flags that are given by hand", async () => {
  const own = ["--min_semi_space_size=8", "--allocation-site-pretenuring"];
  expect(await argumentsOfServe(own, { NODE_OPTIONS: "--max-semi-space-size=32" })).toEqual(own);
});

/** Runs the command on a Node that reports this version. */
async function runOn(version: string): Promise<{ code: number; stdout: string; stderr: string }> {
  const change = `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "${version}" } })`;
  return promisify(execFile)(process.execPath, ["--import", `data:text/javascript,${encodeURIComponent(change)}`, entry, "--version"]).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    (error) => error,
  );
}

test("a Node that is too old ends with one line that names the required version", async () => {
  const [major = "", minor = ""] = required.split(".");
  for (const old of ["12.22.12", "20.20.2", `${major}.${Number(minor) - 1}.9`]) {
    const { code, stdout, stderr } = await runOn(old);
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(/^[^\n]+\n$/);
    expect(stderr).toContain(`wamid-relay needs Node.js ${required} or later, and this is Node.js ${old}. `);
    // Only clones on Linux hold a Node of their own.
    expect(stderr).toContain(existsSync(`node_modules/node-linux-${process.arch}/bin/node`) ? "npm run -s relay --" : "https://nodejs.org");
  }
  for (const recent of [`${required}.0`, `${major}.${Number(minor) + 1}.0`, `${Number(major) + 1}.0.0`, "100.1.0"])
    expect(await runOn(recent)).toMatchObject({ code: 0, stderr: "" });
});

test("the pages that name the minimum version name this one", () => {
  for (const page of ["README.md", "docs/start/install.md"]) expect(readFileSync(page, "utf8"), page).toContain(`Node ${required}`);
});
