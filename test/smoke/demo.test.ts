// Slow: it runs the whole demo.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { until } from "../harness/until.ts";

const entry = fileURLToPath(new URL("../../src/cli/wamid-relay.js", import.meta.url));
let temporary: string;
beforeEach(() => {
  temporary = mkdtempSync(join(tmpdir(), "demo-test-"));
});
afterEach(() => rmSync(temporary, { recursive: true, force: true }));

function startDemo(...options: string[]) {
  const child = spawn(process.execPath, [entry, "demo", ...options], {
    env: { ...process.env, TMPDIR: temporary },
  });
  const printed = { out: "", err: "" };
  child.stdout.on("data", (chunk: Buffer) => {
    printed.out += chunk;
  });
  child.stderr.on("data", (chunk: Buffer) => {
    printed.err += chunk;
  });
  return {
    child,
    printed,
    exited: once(child, "close") as Promise<[number | null, NodeJS.Signals | null]>,
  };
}

/**
 * Not a race between output and exit: after an early exit, that spins within one turn of the event
 * loop until memory is out.
 */
const printing = ({ child, printed }: ReturnType<typeof startDemo>, pattern: RegExp) =>
  until(`it prints ${pattern}`, () => {
    if (child.exitCode !== null) throw new Error(`the demo ended: ${printed.err}`);
    return pattern.test(printed.out);
  });

/**
 * Whether anybody takes connections there: no time limit, as a busy machine is slow to answer and
 * quick to connect.
 */
const isListening = (url: string) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
    socket.once("connect", () => socket.destroy());
  });

test("the demo exits, its sums match, and it leaves no files or processes", async () => {
  const { printed, exited } = startDemo("--messages", "200");
  const [code] = await exited;
  expect(printed.err).toBe("");
  expect(printed.out).toContain("Every sum matches");
  expect(printed.out).toContain("What to try next");
  expect(printed.out).not.toContain("\x1b");
  // Nobody in clear.
  expect(printed.out).not.toMatch(/wamid\.|\+\d{8}/);
  expect(code).toBe(0);
  expect(readdirSync(temporary)).toEqual([]);
});

test("with --format meta, its sums match, too", { tags: ["slow"] }, async () => {
  const { printed, exited } = startDemo("--format", "meta", "--messages", "200", "--json");
  const [code] = await exited;
  expect(printed.err).toBe("");
  const { ok, checks } = JSON.parse(printed.out) as {
    ok: boolean;
    checks: { what: string; seen: Record<string, number> }[];
  };
  expect(checks.filter(({ seen }) => Object.values(seen).some((count) => count > 100)).length).toBe(
    5,
  );
  expect([ok, code]).toEqual([true, 0]);
});

test("Ctrl-C stops the demo, its relay and the sandbox, and removes its folder", {
  tags: ["slow"],
}, async () => {
  const running = startDemo();
  const { child, printed, exited } = running;
  await printing(running, /sent=[1-9]/);
  const urls = ["service", "relay", "downstream"].map(
    (name) => new RegExp(`${name} (http:\\S+),`).exec(printed.out)?.[1] as string,
  );
  for (const url of urls) expect(await isListening(url)).toBe(true);
  child.kill("SIGINT");
  const [code] = await exited;
  expect([code, printed.err]).toEqual([130, ""]);
  for (const url of urls) expect(await isListening(url)).toBe(false);
  expect(readdirSync(temporary)).toEqual([]);
});

test("with --stay the demo prints a link that signs in to the console, and ends well with Ctrl-C", {
  tags: ["slow"],
}, async () => {
  const running = startDemo("--stay");
  const { child, printed, exited } = running;
  await printing(running, /stays up until Ctrl-C/);
  const [, url = "", code = ""] = /(http:\S+)\/console\/#code=(\S+)/.exec(printed.out) ?? [];
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${url}/v1/session`, {
    method: "POST",
    headers,
    body: JSON.stringify({ code }),
  });
  expect([answer.status, await answer.json()]).toMatchObject([
    200,
    { name: "demo", scopes: expect.arrayContaining(["read", "replay", "pii"]) },
  ]);
  await printing(running, /What to try next/);
  const parts = [
    "/console/#code=",
    "stays up until Ctrl-C",
    "messages sent",
    "audit of the relay",
    "Every sum matches",
  ];
  expect(parts.toSorted((a, b) => printed.out.indexOf(a) - printed.out.indexOf(b))).toEqual(parts);
  for (const part of parts) expect(printed.out).toContain(part);
  child.kill("SIGINT");
  expect(await exited).toEqual([0, null]);
  expect(readdirSync(temporary)).toEqual([]);
});
