// @module-tag slow: it starts the sandbox, a relay and four times what cron starts.
import { execFile } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readPage } from "../harness/pages.ts";
import { startProgram } from "../harness/program.ts";
import { entry } from "../harness/relay-process.ts";
import { runHere } from "../harness/run-here.ts";
import { tempFolder } from "../harness/temp-folder.ts";
import { freePort } from "../setup/free-port.ts";

/** A long-running command without any variable of this process. */
const start = (cwd: string, ...args: string[]) =>
  startProgram(process.execPath, [entry, ...args], { cwd, env: {} });

/** What cron runs: `sh -c` on the line, with no variable but those of the crontab. */
function runCrontab(
  lines: readonly string[],
  folder: string,
): Promise<{ code: number; output: string }> {
  const variables = lines.slice(0, -1);
  const command = (lines.at(-1) ?? "").replace(/^(\S+ +){5}/, "");
  return new Promise((resolve) => {
    const child = execFile(
      "env",
      ["-i", ...variables, "/bin/sh", "-c", command],
      { cwd: folder },
      (_error, stdout, stderr) => resolve({ code: child.exitCode ?? -1, output: stdout + stderr }),
    );
  });
}

test("the crontab of docs/concepts/reconciliation-and-quotas.md works in an empty environment, with a relay and without one", async () => {
  const root = tempFolder();
  const [etc, bin, home] = [join(root, "etc"), join(root, "bin"), join(root, "home")];
  for (const each of [bin, home]) mkdirSync(each);
  symlinkSync(process.execPath, join(bin, "node"));
  writeFileSync(join(bin, "wamid-relay"), `#!/bin/sh\nexec node ${entry} "$@"\n`, { mode: 0o755 });
  const docs = readPage("docs/concepts/reconciliation-and-quotas.md");
  const [, block = ""] = /^```crontab\n([\s\S]*?)^```$/m.exec(docs) ?? [];
  expect(block).toContain("--config /etc/wamid-relay/relay.yaml");
  const crontab = block
    .trim()
    .replaceAll("/etc/wamid-relay", etc)
    .replaceAll("/usr/local/bin", bin)
    .split("\n");

  const [port, sandboxPort, key] = [await freePort(), await freePort(), "sandbox-api-key"];
  const given = [
    "--yes",
    "--base-url",
    `http://127.0.0.1:${sandboxPort}`,
    "--api-key",
    key,
    "--port",
    String(port),
  ];
  expect((await runHere(["init", "--dir", etc, ...given])).code).toBe(0);
  const sandbox = start(
    root,
    "sandbox",
    "--port",
    String(sandboxPort),
    "--key",
    key,
    "--no-webhook",
  );
  await sandbox.until("the sandbox plays", () => sandbox.output().includes("Ctrl-C"));

  const early = await runCrontab(crontab, home);
  expect(early).toEqual({
    code: 1,
    output: expect.stringContaining(`there is no store at ${join(etc, "data", "relay.db")} yet`),
  });

  const relay = start(home, "serve", "--config", join(etc, "relay.yaml"));
  await relay.until("the relay listens", () => relay.output().includes('"listening"'));
  // Cron mails what a command prints. Without --quiet, the same line shows that it polls.
  const loud = crontab.map((line) => line.replace(" --quiet", ""));
  const [silent, table] = ["", expect.stringMatching(/^account +polled[^\n]*\nmain +0 /)].map(
    (output) => ({ code: 0, output }),
  );
  expect(await runCrontab(crontab, home)).toEqual(silent);
  expect(await runCrontab(loud, home)).toEqual(table);
  await relay.end("SIGTERM");
  expect(await runCrontab(crontab, home)).toEqual(silent);
  expect(await runCrontab(loud, home)).toEqual(table);
});
