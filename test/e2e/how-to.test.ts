// Slow: it runs the commands of how-to pages with a sandbox, a relay and a destination.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { freePort } from "../setup/free-port.ts";

const root = new URL("../..", import.meta.url).pathname;

const read = (page: string): string => readFileSync(join(root, "docs/how-to", page), "utf8");

/** The code blocks of the numbered steps in this language, without the steps' indentation. */
const blocksOf = (page: string, language: string): string[] =>
  [...page.matchAll(new RegExp(`^ {3}\`\`\`${language}\\n([\\s\\S]*?)^ {3}\`\`\``, "gm"))].map(([, text = ""]) =>
    text.replaceAll(/^ {3}/gm, ""),
  );

/** A folder with the command on the PATH of its scripts. */
function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "wamid-relay-how-to-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(join(folder, "bin"));
  symlinkSync(join(root, "src/cli/wamid-relay.js"), join(folder, "bin/wamid-relay"));
  return folder;
}

/** Runs a script to its end and returns what it printed. What it leaves in the background ends with the test. */
async function bash(folder: string, script: readonly string[]): Promise<string> {
  const text = ["set -e", `PATH=${folder}/bin:$PATH`, ...script].join("\n");
  const child = spawn("bash", ["-c", text], { cwd: folder, detached: true, stdio: ["ignore", "pipe", "pipe"] });
  let out = "";
  child.stdout.on("data", (chunk) => (out += chunk));
  child.stderr.on("data", (chunk) => (out += chunk));
  onTestFinished(() => void process.kill(-(child.pid as number), "SIGKILL"));
  const [code] = (await once(child, "exit")) as [number | null];
  expect(code, out).toBe(0);
  return out;
}

test("the steps of send-failures-to-a-crm.md forward the failed message only, and those of explain-an-event.md the other one", async () => {
  const page = read("send-failures-to-a-crm.md");
  const [startSandbox = "", startRelay = "", send = "", ...others] = blocksOf(page, "sh");
  const [routes = ""] = blocksOf(page, "yaml");
  const [line = ""] = blocksOf(page, "text");
  expect(startSandbox).toContain("wamid-relay sandbox");
  expect(send).toContain("wamid-relay send");
  expect(others).toEqual([]);
  const explaining = read("explain-an-event.md");
  const [search = "", explain = "", reload = "", replay = ""] = blocksOf(explaining, "sh");
  const [added = ""] = blocksOf(explaining, "yaml");
  expect(replay).toContain("--disposition filtered");

  const folder = newFolder();
  const [sandbox, relay, crm] = [await freePort(), await freePort(), await freePort()].map(String) as [string, string, string];
  writeFileSync(join(folder, "routes.yaml"), routes.replaceAll("3000", crm));
  writeFileSync(join(folder, "added.yaml"), added.replace("routes:\n", "").replaceAll("3000", crm));
  const out = await bash(folder, [
    startSandbox
      .replace("wamid-relay sandbox", `$& --port ${sandbox} --webhook http://127.0.0.1:${relay}/webhooks/main`)
      .replace("wamid-relay init", `$& --port ${relay}`)
      .replaceAll("4010", sandbox),
    // "Replace the section `routes`", which is the last one of the file.
    "sed -i '/^routes:/,$d' relay.yaml && cat routes.yaml >> relay.yaml",
    startRelay.replaceAll("3000", crm).replaceAll("8080", relay).replace("--retry 20", "--retry 200"),
    send.replaceAll("4010", sandbox),
    "until grep order-1 crm.log; do sleep 0.2; done",
    "until wamid-relay explain order-2 | grep 'delivered'; do sleep 0.2; done",
    search,
    explain,
    "cat added.yaml >> relay.yaml",
    reload,
    replay,
    "echo crm.log: && cat crm.log",
  ]);
  const [beginning = ""] = line.split(" dlv_");
  expect(beginning).toBe("failed 131026 order-1");
  const received = out.slice(out.lastIndexOf("crm.log:")).trim().split("\n").slice(1);
  expect(received, out).toHaveLength(1);
  expect(received[0]).toMatch(new RegExp(`^${beginning} dlv_\\w+$`));
  expect(out).toContain("failures-to-crm: did not match: it takes other statuses");
  expect(out).toMatch(/delivered-to-bi: 1\n1 of 1 deliveries go out again/);
});

test("the steps of docs/how-to/recover-from-an-outage.md deliver everything after a destination returns", async () => {
  const page = read("recover-from-an-outage.md");
  const [look = ""] = [...page.matchAll(/^```sh\n([\s\S]*?)^```/gm)].map(([, text = ""]) => text);
  const [explain = "", retry = "", sendWaiting = "", sendDead = "", check = ""] = blocksOf(page, "sh");
  expect(retry).toContain("wamid-relay retry");
  expect(look).toContain("wamid-relay doctor");
  expect(sendDead).toContain("--cause connect");
  expect(check).toContain("wamid-relay audit");

  const folder = newFolder();
  const [relay, crm] = [await freePort(), await freePort()];
  const settings = {
    server: { host: "127.0.0.1", port: relay },
    accounts: { main: {} },
    sources: { main: { account: "main", signature: { service: "acme", secrets: ["a secret of thirty-two characters"] } } },
    control: { tokens: [{ name: "ops", token: "a-token-of-thirty-two-characters", scopes: ["read", "replay"] }] },
    // Three attempts, one after the other, end dead and open the breaker; the other deliveries wait.
    routes: [
      {
        name: "failures-to-crm",
        to: {
          url: `http://127.0.0.1:${crm}/failures`,
          allowPrivate: true,
          concurrency: 1,
          retry: { schedule: ["0s"] },
          breaker: { failures: 3, pause: "5s" },
        },
      },
    ],
  };
  writeFileSync(join(folder, "relay.yaml"), JSON.stringify(settings));
  const receiver = `require("http").createServer((request, response) => {
    console.log(request.headers["webhook-id"]);
    request.resume().on("end", () => response.end());
  }).listen(${crm}, "127.0.0.1");`;
  writeFileSync(join(folder, "crm.cjs"), receiver);
  const out = await bash(folder, [
    "wamid-relay serve > relay.log &",
    `curl -sf -o /dev/null --retry 50 --retry-connrefused --retry-delay 1 http://127.0.0.1:${relay}/readyz`,
    "wamid-relay trigger message.status --count 9",
    "until wamid-relay deliveries groups | grep 'dead .*connect'; do sleep 0.2; done",
    // Doctor ends with 1 while a destination is down.
    look.replace("wamid-relay doctor", "$& || true"),
    explain,
    `node crm.cjs > crm.log &`,
    `curl -s -o /dev/null --retry 50 --retry-connrefused --retry-delay 1 http://127.0.0.1:${crm}`,
    sendWaiting,
    sendDead,
    "until test $(grep -c dlv_ crm.log) -ge 9; do sleep 0.2; done",
    "while wamid-relay deliveries groups | grep failures-to-crm; do sleep 0.2; done",
    check,
    "echo crm.log: && grep dlv_ crm.log",
  ]);
  expect(out).toMatch(/failures-to-crm +waiting/);
  expect(out).toMatch(/failures-to-crm +dead +connect/);
  expect(out).toContain("no connection (ECONNREFUSED)");
  expect(out).toMatch(/\d+ of \d+ deliveries go out again/);
  const received = out.slice(out.lastIndexOf("crm.log:")).trim().split("\n").slice(1);
  expect(new Set(received).size, out).toBe(9);
});
