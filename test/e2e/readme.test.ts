// @module-tag slow: it runs the commands of README.md and docs/start.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { endGroup, openShell } from "../harness/docs-shell.ts";
import { between, codeBlocks, readPage } from "../harness/pages.ts";
import { tempFolder } from "../harness/temp-folder.ts";
import { until } from "../harness/until.ts";
import { freePort } from "../setup/free-port.ts";

const readme = readPage("README.md");
const shellBlocks = (from: string, to: string, page = readme) =>
  codeBlocks(between(page, from, to));
const startPage = (name: string) => readPage(`docs/start/${name}.md`);

/** npm signals the shell that it started, and Debian's does not pass the signal on. */
test("stopping npm stops the relay that it started", async () => {
  const folder = tempFolder();
  const config = join(folder, "ended.yaml");
  writeFileSync(
    config,
    `server: { host: 127.0.0.1, port: ${await freePort()} }\nstorage: { path: ${join(folder, "ended.db")} }\n`,
  );
  const args = ["run", "-s", "relay", "--", "serve", "--config", config];
  const npm = spawn("npm", args, {
    cwd: new URL("../..", import.meta.url),
    detached: true,
    stdio: ["ignore", "pipe", "ignore"],
  });
  onTestFinished(() => endGroup(npm.pid as number));
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
  const script = [`export PORT=${relayPort}`, ...blocks, delivered]
    .join("\n")
    .replaceAll("8080", String(relayPort))
    .replaceAll("3000", String(downstreamPort))
    .replace("--retry 20", "--retry 200")
    .replace(/^wamid-relay console/m, "$& --no-open");
  const { code, out } = await openShell().run([script]);
  expect(out).toMatch(/"object": ?"whatsapp_business_account"[\s\S]*"status": ?"delivered"/);
  expect(out).toMatch(/message\.status .* routed .* 1 delivered/);
  expect(out).toContain("ok    secrets");
  expect(out).toContain(`http://127.0.0.1:${relayPort}/console`);
  expect(code, out).toBe(0);
});

test("first-relay.md works as written", async () => {
  const [relayPort, downstreamPort] = [await freePort(), await freePort()];
  const blocks = shellBlocks(
    "## Write the settings",
    "## If something fails",
    startPage("first-relay"),
  );
  const script = [`export PORT=${relayPort}`, ...blocks, "wait"]
    .join("\n")
    .replaceAll("8080", String(relayPort))
    .replaceAll("3000", String(downstreamPort))
    .replace("--retry 20", "--retry 200")
    .replace(/^wamid-relay explain .*/m, `until $& | grep "answered 200"; do sleep 0.2; done; $&`)
    .replace(/^wamid-relay console/m, "$& --no-open");
  const { code, out } = await openShell().run([script]);
  expect(out).toContain("1 post in ");
  expect(out).toMatch(
    /{"status":"accepted"}[\s\S]*{"status":"duplicate"}[\s\S]*"code":"bad_signature"}/,
  );
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
  const [start = "", ...send] = shellBlocks(
    "## Start the sandbox",
    "## What to do with an unknown outcome",
    startPage("first-send"),
  );
  const stop = send.pop();
  expect(stop).toContain("kill %1 %2 %3");
  const samples = shellBlocks(
    "## Sample events",
    "## Fixtures from real events",
    startPage("local-development"),
  );
  const fixture = shellBlocks(
    "## Fixtures from real events",
    "Next:",
    startPage("local-development"),
  ).join("\n");
  const saved = `wamid-relay trigger message.received\nSEQ=$(wamid-relay events list --event message.received | awk 'NR == 2 { print $3 }')`;
  const script = [
    start,
    ...send,
    ...samples,
    saved,
    fixture.replace("1234", '"$SEQ"'),
    stop,
    "wait",
  ]
    .join("\n")
    .replace(
      "wamid-relay sandbox",
      `$& --port ${sandboxPort} --webhook http://127.0.0.1:${relayPort}/webhooks/main --speed 20`,
    )
    .replace("wamid-relay init", `$& --port ${relayPort}`)
    .replace("--retry 20", "--retry 200")
    .replaceAll("127.0.0.1:8080", `127.0.0.1:${relayPort}`)
    .replaceAll("4010", String(sandboxPort))
    .replaceAll("3000", String(appPort))
    .replace("--count 1000 --rate 200/s", "--count 20")
    .replace(
      /^wamid-relay explain .*/m,
      `until $& | grep "sent → delivered"; do sleep 0.2; done; $&`,
    );
  const { code, out } = await openShell().run([script]);
  expect(out).toMatch(
    /^{"account":"main","idempotencyKey":"order-1234-hello".*"status":"pending".*"stored":true}$/m,
  );
  expect(out).toMatch(/"data":{"wamid":"wamid\.[^"]+","status":"delivered"}}$/m);
  expect(out).toMatch(/^already sent {2}wamid:/m);
  expect(out).toMatch(/^saved fixtures\/message\.received\.received\.json/m);
  expect(code, out).toBe(0);
});

test("every script that the README names exists", () => {
  const { scripts } = JSON.parse(readPage("package.json")) as { scripts: Record<string, string> };
  for (const [, script] of readme.matchAll(/npm run (?:-s )?([a-z]+)/g))
    expect(Object.keys(scripts)).toContain(script);
});
