// Slow: it runs the commands of docs/how-to/send-failures-to-a-crm.md with a sandbox and a relay.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { freePort } from "../setup/free-port.ts";

const root = new URL("../..", import.meta.url).pathname;
const page = readFileSync(join(root, "docs/how-to/send-failures-to-a-crm.md"), "utf8");

/** The code blocks of the numbered steps in this language, without the steps' indentation. */
const blocks = (language: string): string[] =>
  [...page.matchAll(new RegExp(`^   \`\`\`${language}\\n([\\s\\S]*?)^   \`\`\``, "gm"))].map(([, text = ""]) =>
    text.replaceAll(/^ {3}/gm, ""),
  );

test("the steps of docs/how-to/send-failures-to-a-crm.md forward the failed message only", async () => {
  const [startSandbox = "", startRelay = "", send = "", ...others] = blocks("sh");
  const [routes = ""] = blocks("yaml");
  const [line = ""] = blocks("text");
  expect(startSandbox).toContain("wamid-relay sandbox");
  expect(send).toContain("wamid-relay send");
  expect(others).toEqual([]);

  const folder = mkdtempSync(join(tmpdir(), "wamid-relay-how-to-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const bin = join(folder, "bin");
  mkdirSync(bin);
  symlinkSync(join(root, "src/cli/wamid-relay.js"), join(bin, "wamid-relay"));
  const [sandbox, relay, crm] = [await freePort(), await freePort(), await freePort()].map(String) as [string, string, string];
  writeFileSync(join(folder, "routes.yaml"), routes.replaceAll("3000", crm));
  const script = [
    "set -e",
    `PATH=${bin}:$PATH`,
    startSandbox.replace("wamid-relay sandbox", `$& --port ${sandbox} --webhook http://127.0.0.1:${relay}/webhooks/main`),
    "until test -s relay.yaml; do sleep 0.1; done",
    // "Replace the section `routes`", which is the last one of the file.
    "sed -i '/^routes:/,$d' relay.yaml && cat routes.yaml >> relay.yaml",
    startRelay.replaceAll("3000", crm).replaceAll("8080", relay),
    send.replaceAll("4010", sandbox),
    "until grep order-1 crm.log; do sleep 0.2; done",
    "until wamid-relay explain order-2 | grep 'delivered'; do sleep 0.2; done",
    "wamid-relay explain order-2",
    "echo crm.log: && cat crm.log",
  ].join("\n");
  const child = spawn("bash", ["-c", script], { cwd: folder, detached: true, stdio: ["ignore", "pipe", "pipe"] });
  let out = "";
  child.stdout.on("data", (chunk) => (out += chunk));
  child.stderr.on("data", (chunk) => (out += chunk));
  onTestFinished(() => void process.kill(-(child.pid as number), "SIGKILL"));
  const [code] = (await once(child, "exit")) as [number | null];

  expect(code, out).toBe(0);
  const [beginning = ""] = line.split(" dlv_");
  expect(beginning).toBe("failed 131026 order-1");
  const received = out.slice(out.lastIndexOf("crm.log:")).trim().split("\n").slice(1);
  expect(received, out).toHaveLength(1);
  expect(received[0]).toMatch(new RegExp(`^${beginning} dlv_\\w+$`));
  expect(out).toContain("failures-to-crm: does not match: status");
});
