// @module-tag slow: it runs the commands of how-to pages with a sandbox, a relay and a destination.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openShell } from "../harness/docs-shell.ts";
import { codeBlocks, readPage } from "../harness/pages.ts";
import { freePort } from "../setup/free-port.ts";

/** What a script printed, which must succeed. */
async function outputOf(
  { run }: ReturnType<typeof openShell>,
  script: readonly string[],
): Promise<string> {
  const { code, out } = await run(script);
  expect(code, out).toBe(0);
  return out;
}

const linesAfter = (out: string, heading: string) =>
  out.slice(out.lastIndexOf(heading)).trim().split("\n").slice(1);

test("the steps of send-failures-to-a-crm.md forward the failed message only, and those of explain-an-event.md the other one", async () => {
  const page = readPage("docs/how-to/send-failures-to-a-crm.md");
  const [startSandbox = "", startRelay = "", send = "", ...others] = codeBlocks(page);
  const [routes = ""] = codeBlocks(page, "yaml");
  const [line = ""] = codeBlocks(page, "text");
  expect(startSandbox).toContain("wamid-relay sandbox");
  expect(send).toContain("wamid-relay send");
  expect(others).toEqual([]);
  const explaining = readPage("docs/how-to/explain-an-event.md");
  const [search = "", explain = "", reload = "", replay = ""] = codeBlocks(explaining);
  const [added = ""] = codeBlocks(explaining, "yaml");
  expect(replay).toContain("--disposition filtered");

  const shell = openShell();
  const [sandbox, relay, crm] = [await freePort(), await freePort(), await freePort()].map(
    String,
  ) as [string, string, string];
  writeFileSync(join(shell.folder, "routes.yaml"), routes.replaceAll("3000", crm));
  writeFileSync(
    join(shell.folder, "added.yaml"),
    added.replace("routes:\n", "").replaceAll("3000", crm),
  );
  const out = await outputOf(shell, [
    startSandbox
      .replace(
        "wamid-relay sandbox",
        `$& --port ${sandbox} --webhook http://127.0.0.1:${relay}/webhooks/main`,
      )
      .replace("wamid-relay init", `$& --port ${relay}`)
      .replaceAll("4010", sandbox),
    // "Replace the section `routes`", which is the last one of the file.
    "sed -i '/^routes:/,$d' relay.yaml && cat routes.yaml >> relay.yaml",
    startRelay
      .replaceAll("3000", crm)
      .replaceAll("8080", relay)
      .replace("--retry 20", "--retry 200"),
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
  expect(linesAfter(out, "crm.log:"), out).toEqual([
    expect.stringMatching(new RegExp(`^${beginning} dlv_\\w+$`)),
  ]);
  expect(out).toContain("failures-to-crm: did not match: it takes other statuses");
  expect(out).toMatch(/delivered-to-bi: 1\n1 of 1 deliveries go out again/);
});

test("the steps of docs/how-to/recover-from-an-outage.md deliver everything after a destination returns", async () => {
  const [look = "", explain = "", retry = "", sendWaiting = "", sendDead = "", check = ""] =
    codeBlocks(readPage("docs/how-to/recover-from-an-outage.md"));
  expect(look).toContain("wamid-relay doctor");
  expect(retry).toContain("wamid-relay retry");
  expect(sendDead).toContain("--cause connect");
  expect(check).toContain("wamid-relay audit");

  const shell = openShell();
  const [relay, crm] = [await freePort(), await freePort()];
  // Three attempts, one after the other, end dead and open the breaker; the other deliveries wait.
  const to = {
    url: `http://127.0.0.1:${crm}/failures`,
    allowPrivate: true,
    concurrency: 1,
    retry: { schedule: ["0s"] },
    breaker: { failures: 3, pause: "5s" },
  };
  const settings = {
    server: { host: "127.0.0.1", port: relay },
    accounts: { main: {} },
    sources: {
      main: {
        account: "main",
        signature: { service: "acme", secrets: ["a secret of thirty-two characters"] },
      },
    },
    control: {
      tokens: [
        { name: "ops", token: "a-token-of-thirty-two-characters", scopes: ["read", "replay"] },
      ],
    },
    routes: [{ name: "failures-to-crm", to }],
  };
  writeFileSync(join(shell.folder, "relay.yaml"), JSON.stringify(settings));
  const receiver = `require("http").createServer((request, response) => {
    console.log(request.headers["webhook-id"]);
    request.resume().on("end", () => response.end());
  }).listen(${crm}, "127.0.0.1");`;
  writeFileSync(join(shell.folder, "crm.cjs"), receiver);
  const out = await outputOf(shell, [
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
  expect(new Set(linesAfter(out, "crm.log:")).size, out).toBe(9);
});
