// Slow: it runs the commands of README.md and docs/start.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { until } from "../harness/until.ts";
import { freePort } from "../setup/free-port.ts";

const root = new URL("../..", import.meta.url).pathname;
const readme = readFileSync(join(root, "README.md"), "utf8");
const folder = mkdtempSync(join(tmpdir(), "wamid-relay-readme-"));

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The shell blocks between two headings, in order. */
function shellBlocks(from: string, to: string, text = readme): string[] {
  const start = text.indexOf(from);
  const end = text.indexOf(to);
  expect(start, from).toBeGreaterThan(0);
  expect(end, to).toBeGreaterThan(start);
  return [...text.slice(start, end).matchAll(/```sh\n([\s\S]*?)```/g)].map((match) => match[1] as string);
}

const startPage = (name: string) => readFileSync(join(root, `docs/start/${name}.md`), "utf8");

/** A folder on the PATH with the command. */
const bin = join(folder, "bin");
mkdirSync(bin);
symlinkSync(join(root, "src/cli/wamid-relay.js"), join(bin, "wamid-relay"));

/** Whoever is left of a group of processes. */
function endGroup(leader: number, signal: "SIGTERM" | "SIGKILL"): void {
  try {
    process.kill(-leader, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/** Runs a script in a process group of its own, and ends the whole group when the script is over. */
function bash(script: string): Promise<{ code: number | null; out: string }> {
  return new Promise((resolve) => {
    const child = spawn("bash", ["-c", script], { cwd: folder, detached: true, stdio: ["ignore", "pipe", "pipe"] });
    let out = "";
    child.stdout.on("data", (chunk) => (out += chunk));
    child.stderr.on("data", (chunk) => (out += chunk));
    child.on("exit", (code) => {
      endGroup(child.pid as number, "SIGTERM");
      resolve({ code, out });
    });
  });
}

/** npm signals the shell that it started, and Debian's does not pass the signal on. */
test("stopping npm stops the relay that it started", async () => {
  const config = join(folder, "ended.yaml");
  writeFileSync(config, `server: { host: 127.0.0.1, port: ${await freePort()} }\nstorage: { path: ${join(folder, "ended.db")} }\n`);
  const args = ["run", "-s", "relay", "--", "serve", "--config", config];
  const npm = spawn("npm", args, { cwd: root, detached: true, stdio: ["ignore", "pipe", "ignore"] });
  // Not by the command `kill`: Debian's takes the first digit of a group after a signal's name for the group, and -1 is everybody.
  onTestFinished(() => endGroup(npm.pid as number, "SIGKILL"));
  let log = "";
  npm.stdout.on("data", (chunk) => (log += chunk));
  const over = once(npm, "close");
  await until("it listens", () => log.includes('"listening"'));
  npm.kill("SIGTERM");
  await until("it has stopped", () => log.includes('"stopped"'));
  await over;
});

test("the README's five minutes work as written", async () => {
  const [relayPort, downstreamPort] = [await freePort(), await freePort()];
  const [packed, ...blocks] = shellBlocks("## First event in five minutes", "## Deploy");
  expect(packed).toContain("npm run pack");
  expect(blocks).toHaveLength(4);
  const delivered = `until wamid-relay events list | grep "1 delivered"; do sleep 0.2; done`;
  const script = ["set -e", `PATH=${bin}:$PATH`, `export PORT=${relayPort}`, ...blocks, delivered]
    .join("\n")
    .replaceAll("8080", String(relayPort))
    .replaceAll("3000", String(downstreamPort))
    .replace("--retry 20", "--retry 200")
    .replace(/^wamid-relay console/m, "$& --no-open");
  const { code, out } = await bash(script);
  expect(out).toMatch(/"object": ?"whatsapp_business_account"[\s\S]*"status": ?"delivered"/);
  expect(out).toMatch(/message\.status .* routed .* 1 delivered/);
  expect(out).toContain("ok    secrets");
  expect(out).toContain(`http://127.0.0.1:${relayPort}/console`);
  expect(code, out).toBe(0);
});

test("first-relay.md works as written", async () => {
  const [relayPort, downstreamPort] = [await freePort(), await freePort()];
  const blocks = shellBlocks("## Write the settings", "## If something fails", startPage("first-relay"));
  const script = ["set -e", `PATH=${bin}:$PATH`, `export PORT=${relayPort}`, "mkdir first && cd first", ...blocks, "wait"]
    .join("\n")
    .replaceAll("8080", String(relayPort))
    .replaceAll("3000", String(downstreamPort))
    .replace("--retry 20", "--retry 200")
    .replace(/^wamid-relay explain .*/m, `until $& | grep "answered 200"; do sleep 0.2; done; $&`)
    .replace(/^wamid-relay console/m, "$& --no-open");
  const { code, out } = await bash(script);
  expect(out).toContain("1 post in ");
  expect(out).toMatch(/{"status":"accepted"}[\s\S]*{"status":"duplicate"}[\s\S]*"code":"bad_signature"}/);
  expect(out).toMatch(
    /event 2: message\.status, event:[0-9a-f]{12}\n.*\n {4}duplicates {2}1\n.*unknown → delivered[\s\S]*downstream: matched every criterion/,
  );
  // Printed by the receiver: each event once.
  expect(out.match(/"event": "message\.status"/g)).toHaveLength(1);
  expect(out.match(/"id":"evt-1"/g)).toHaveLength(1);
  expect(out).toContain("ok    secrets");
  expect(code, out).toBe(0);
});

test("first-send.md and the samples of local-development.md work as written", async () => {
  const [relayPort, appPort, sandboxPort] = [await freePort(), await freePort(), await freePort()];
  const [start = "", ...send] = shellBlocks("## Start the sandbox", "## What to do with an unknown outcome", startPage("first-send"));
  const stop = send.pop();
  expect(stop).toContain("kill %1 %2 %3");
  const samples = shellBlocks("## Sample events", "## Fixtures from real events", startPage("local-development"));
  const fixture = shellBlocks("## Fixtures from real events", "Next:", startPage("local-development")).join("\n");
  const saved = `wamid-relay trigger message.received\nSEQ=$(wamid-relay events list --event message.received | awk 'NR == 2 { print $3 }')`;
  const env = `PATH=${bin}:$PATH`;
  const script = [
    "set -e",
    env,
    "mkdir second && cd second",
    start,
    ...send,
    ...samples,
    saved,
    fixture.replace("1234", '"$SEQ"'),
    stop,
    "wait",
  ]
    .join("\n")
    .replace("wamid-relay sandbox", `$& --port ${sandboxPort} --webhook http://127.0.0.1:${relayPort}/webhooks/main --speed 20`)
    .replace("wamid-relay init", `$& --port ${relayPort}`)
    .replace("--retry 20", "--retry 200")
    .replaceAll("127.0.0.1:8080", `127.0.0.1:${relayPort}`)
    .replaceAll("4010", String(sandboxPort))
    .replaceAll("3000", String(appPort))
    .replace("--count 1000 --rate 200/s", "--count 20")
    .replace(/^wamid-relay explain .*/m, `until $& | grep "sent → delivered"; do sleep 0.2; done; $&`);
  const { code, out } = await bash(script);
  expect(out).toMatch(/^{"account":"main","idempotencyKey":"order-1234-hello".*"status":"pending".*"stored":true}$/m);
  expect(out).toMatch(/"data":{"wamid":"wamid\.[^"]+","status":"delivered"}}$/m);
  expect(out).toMatch(/^already sent {2}wamid:/m);
  expect(out).toMatch(/^saved fixtures\/message\.received\.received\.json/m);
  expect(code, out).toBe(0);
});

test("every script that the README names exists", () => {
  const scripts = (JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { scripts: Record<string, string> }).scripts;
  for (const [, script] of readme.matchAll(/npm run (?:-s )?([a-z]+)/g)) expect(Object.keys(scripts)).toContain(script);
});
