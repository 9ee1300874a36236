// Slow: it starts the sandbox and a relay from the files that init writes.
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { Webhook } from "standardwebhooks";
import { expect, onTestFinished, test } from "vitest";
import { entry } from "../harness/relay-process.ts";
import { runCli } from "../harness/run-cli.ts";
import { until } from "../harness/until.ts";
import { freePort } from "../setup/free-port.ts";

interface Posted {
  readonly headers: Record<string, string>;
  readonly body: string;
}

async function startDownstream(): Promise<{ readonly url: string; readonly posts: Posted[] }> {
  const posts: Posted[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      posts.push({ headers: request.headers as Record<string, string>, body: Buffer.concat(chunks).toString("utf8") });
      response.end();
    });
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close().closeAllConnections());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`, posts };
}

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "wamid-relay-init-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A long-running command without any variable of this process. */
function start(folder: string, ...args: string[]): { readonly output: () => string } {
  const child = spawn(process.execPath, [entry, ...args], { cwd: folder, env: {}, stdio: ["ignore", "pipe", "pipe"] });
  onTestFinished(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGTERM");
    await once(child, "exit");
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text: string) => (output += text));
  return { output: () => output };
}

test("init, sandbox and serve: the first event arrives with a signature that the downstream verifies", async () => {
  const folder = newFolder();
  const downstream = await startDownstream();
  const [port, sandboxPort] = [await freePort(), await freePort()];
  const [secret, key] = ["webhook-secret-of-the-sandbox", "sandbox-api-key"];
  const given = ["--service-name", "acme", "--downstream", downstream.url, "--port", String(port)];
  const service = ["--base-url", `http://127.0.0.1:${sandboxPort}`, "--webhook-secret", secret, "--api-key", key];
  const { code, stderr } = await runCli("init", "--dir", folder, ...given, ...service);
  expect([code, stderr]).toEqual([0, ""]);

  const sandbox = start(
    folder,
    ...["sandbox", "--port", String(sandboxPort), "--secret", secret, "--key", key, "--speed", "100"],
    ...["--webhook", `http://127.0.0.1:${port}/webhooks/main`],
  );
  const relay = start(folder, "serve");
  await until("the relay listens", () => relay.output().includes('"listening"'));
  await until("the sandbox plays", () => sandbox.output().includes("Ctrl-C"));
  const sent = await fetch(`http://127.0.0.1:${sandboxPort}/api/v1/messages`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: sandbox.output().match(/-d '(\{.*\})'/)?.[1] ?? "",
  });
  expect(sent.status).toBeLessThan(300);
  const { headers, body } = await until("it arrives", () => downstream.posts[0]);
  const { DOWNSTREAM_SECRET: signing = "" } = parseEnv(readFileSync(join(folder, ".env"), "utf8"));
  expect(new Webhook(signing).verify(body, headers)).toMatchObject({ event: "message.status" });
  expect(relay.output()).not.toContain("warning");
});

/** What cron runs: `sh -c` on the line, with no variable but those of the crontab. */
function runCrontab(lines: readonly string[], folder: string): Promise<{ code: number; output: string }> {
  const variables = lines.slice(0, -1);
  const command = (lines.at(-1) ?? "").replace(/^(\S+ +){5}/, "");
  return new Promise((resolve) => {
    const child = execFile("env", ["-i", ...variables, "/bin/sh", "-c", command], { cwd: folder }, (_error, stdout, stderr) =>
      resolve({ code: child.exitCode ?? -1, output: stdout + stderr }),
    );
  });
}

test("the crontab of docs/concepts/reconciliation-and-quotas.md works in an empty environment, with a relay and without one", async () => {
  const root = newFolder();
  const [etc, bin, home] = [join(root, "etc"), join(root, "bin"), join(root, "home")];
  for (const each of [bin, home]) mkdirSync(each);
  symlinkSync(process.execPath, join(bin, "node"));
  writeFileSync(join(bin, "wamid-relay"), `#!/bin/sh\nexec node ${entry} "$@"\n`, { mode: 0o755 });
  const docs = readFileSync(new URL("../../docs/concepts/reconciliation-and-quotas.md", import.meta.url), "utf8");
  const [, block = ""] = /^```crontab\n([\s\S]*?)^```$/m.exec(docs) ?? [];
  expect(block).toContain("--config /etc/wamid-relay/relay.yaml");
  const crontab = block.trim().replaceAll("/etc/wamid-relay", etc).replaceAll("/usr/local/bin", bin).split("\n");

  const [port, sandboxPort, key] = [await freePort(), await freePort(), "sandbox-api-key"];
  const given = ["--yes", "--base-url", `http://127.0.0.1:${sandboxPort}`, "--api-key", key, "--port", String(port)];
  expect((await runCli("init", "--dir", etc, ...given)).code).toBe(0);
  const sandbox = start(root, "sandbox", "--port", String(sandboxPort), "--key", key, "--no-webhook");
  await until("the sandbox plays", () => sandbox.output().includes("Ctrl-C"));

  const early = await runCrontab(crontab, home);
  expect(early).toEqual({ code: 1, output: expect.stringContaining(`there is no store at ${join(etc, "data", "relay.db")} yet`) });

  const relay = spawn(process.execPath, [entry, "serve", "--config", join(etc, "relay.yaml")], { cwd: home, env: {}, stdio: "pipe" });
  onTestFinished(() => void relay.kill("SIGKILL"));
  let log = "";
  relay.stdout.setEncoding("utf8").on("data", (text: string) => (log += text));
  await until("the relay listens", () => log.includes('"listening"'));
  // Cron mails what a command prints. Without --quiet, the same line shows that it polls.
  const loud = crontab.map((line) => line.replace(" --quiet", ""));
  const [silent, table] = ["", expect.stringMatching(/^account +polled[^\n]*\nmain +0 /)].map((output) => ({ code: 0, output }));
  expect(await runCrontab(crontab, home)).toEqual(silent);
  expect(await runCrontab(loud, home)).toEqual(table);
  relay.kill("SIGTERM");
  await once(relay, "exit");
  expect(await runCrontab(crontab, home)).toEqual(silent);
  expect(await runCrontab(loud, home)).toEqual(table);
});
