// @module-tag slow: it runs the commands of docs/contributing/sandbox.md.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { between, codeBlocks, readPage } from "../harness/pages.ts";
import { readyLine, spawnSandbox } from "../harness/sandbox-process.ts";

const run = promisify(execFile);

test("the commands of docs/contributing/sandbox.md work as written", async () => {
  const [script = ""] = codeBlocks(
    between(readPage("docs/contributing/sandbox.md"), "## Try it", "\n## "),
  );
  expect(script).toContain("/messages");
  const env = { SANDBOX_KEY: "acme_live_first_round" };
  const { url } = await readyLine(spawnSandbox(["--port", "0", "--no-webhook", "--json"], { env }));
  const { stdout } = await run(
    "bash",
    ["-e", "-c", script.replaceAll("http://127.0.0.1:4010", url)],
    { env: { ...process.env, ...env } },
  );
  // One answer per call: written to, sent, a minute later, all messages, events, faults, the spoilt
  // send, all messages.
  expect(stdout).toContain('"status":"received"');
  expect(stdout).toContain('"status":"pending"');
  expect(stdout).toMatch(/"event":"message\.status"/);
  expect(stdout).toContain("Ocurrió un error inesperado");
  expect(stdout.slice(stdout.lastIndexOf('{"data":'))).toContain("¿Seguís ahí?");
});
