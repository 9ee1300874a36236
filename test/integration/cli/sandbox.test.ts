import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseEnv, promisify } from "node:util";
import { expect, test } from "vitest";
import { entry } from "../../harness/relay-process.ts";
import { runHere } from "../../harness/run-here.ts";
import { readyLine, spawnSandbox } from "../../harness/sandbox-process.ts";
import { tempFolder } from "../../harness/temp-folder.ts";
import { until } from "../../harness/until.ts";
import { openCallback } from "../sandbox/meta/callback.ts";
import { startRaw } from "../url-destination/downstream.ts";
import { runCli } from "./run-cli.ts";

const run = promisify(execFile);

test("prints a curl command and an init command that work", async () => {
  const folder = tempFolder();
  const sandbox = spawnSandbox(["--port", "0", "--no-webhook", "--service", "shop"], {
    env: { SANDBOX_KEY: "shop_live_of_ci", SANDBOX_SECRET: "a secret of ${our} ci" },
  });
  // Its last line: a pipe may hand over what was written at once in two pieces.
  await until("it is ready", () => sandbox.lines.some((line) => line.includes("--downstream")));
  const text = sandbox.lines.join("\n");
  expect(text).toContain("key        shop_live_of_ci");
  expect(text).toContain(
    "secret     a secret of ${our} ci  (signs events, in the header x-shop-signature)",
  );
  const curl = /^ {2}(curl [\s\S]*?'\{.*\}')$/m.exec(text)?.[1] ?? "";
  const { stdout } = await run("bash", ["-c", `${curl.replace("curl ", "curl -s ")}`]);
  expect(JSON.parse(stdout)).toMatchObject({ status: "pending", wamid: expect.any(String) });
  await until("the message is told", () =>
    sandbox.lines.some((line) => / message {2}\+5491155551234 api: pending {2}/.test(line)),
  );
  const init = /^ {2}(wamid-relay init [\s\S]*?--downstream \S+)$/m.exec(text)?.[1] ?? "";
  await run("bash", ["-c", init.replace("wamid-relay", `${process.execPath} ${entry}`)], {
    cwd: folder,
  });
  expect(parseEnv(readFileSync(join(folder, ".env"), "utf8"))).toMatchObject({
    WEBHOOK_SECRET: "a secret of ${our} ci",
    MESSAGING_API_KEY: "shop_live_of_ci",
  });
  expect(await runHere(["config", "check", "--config", join(folder, "relay.yaml")])).toMatchObject({
    code: 0,
    err: "",
  });
  const printed = await runHere([
    "config",
    "print",
    "--config",
    join(folder, "relay.yaml"),
    "--json",
  ]);
  expect(JSON.parse(printed.out)).toMatchObject({
    accounts: { main: { plan: "escala" } },
    server: { port: 8080 },
  });
  // Twice: Ctrl-C under npm run comes from the terminal and from npm.
  sandbox.child.kill("SIGINT");
  sandbox.child.kill("SIGINT");
  expect(await sandbox.ended()).toEqual({ code: 0, signal: null });
  expect(sandbox.stderr()).toBe("");
});

test("flags reach the sandbox: plan, faults, seed, quiet, unlimited", async () => {
  const args = [
    "--port",
    "0",
    "--json",
    "--quiet",
    "--plan",
    "enterprise",
    "--unlimited",
    "--seed",
    "x",
    "--no-webhook",
  ];
  const sandbox = spawnSandbox([
    ...args,
    "--duplicate",
    "0.25",
    "--fail",
    "502:0.5",
    "--fail",
    "hang",
    "--key",
    "acme_live_given",
  ]);
  const { url, key } = await readyLine(sandbox);
  expect(key).toBe("acme_live_given");
  const { accounts, faults } = (await (await fetch(`${url}/sandbox`)).json()) as Record<
    string,
    unknown
  >;
  expect(accounts).toEqual([{ name: "main", plan: "enterprise" }]);
  expect(faults).toMatchObject({
    events: { duplicate: 0.25, drop: 0 },
    api: [
      { answer: 502, share: 0.5 },
      { answer: "hang", share: 1 },
    ],
  });
  await fetch(`${url}/sandbox/customers/+5491155550001/messages`, {
    method: "POST",
    body: '{"text":"hola"}',
  });
  // What it prints has come once it has ended.
  sandbox.child.kill("SIGINT");
  await sandbox.ended();
  expect(sandbox.lines).toHaveLength(1);
});

test("starts with a plan without the API, and warns about a public host", async () => {
  const sandbox = spawnSandbox(["--port", "0", "--json", "--plan", "trial", "--host", "0.0.0.0"]);
  const { webhooks, apiUrl, key } = await readyLine(sandbox);
  expect(webhooks).toEqual([]);
  expect(
    (await fetch(`${apiUrl}/me`, { headers: { authorization: `Bearer ${key}` } })).status,
  ).toBe(402);
  await until("it has warned", () => sandbox.stderr().includes("\n"));
  expect(sandbox.stderr()).toMatch(/^warning: --host 0\.0\.0\.0 lets others in: [^\n]*\n$/);
});

test("exits with 1 and one line on errors, and with 2 on wrong usage", async () => {
  const folder = tempFolder();
  const { port } = await startRaw(() => {});
  writeFileSync(
    join(folder, "notes.db"),
    "this is no database, but it is long enough to be looked at as one. ".repeat(20),
  );
  const refusals: [args: string[], words: RegExp][] = [
    [
      ["--port", String(port)],
      /^wamid-relay: port \d+ on 127\.0\.0\.1 is taken by another process\n$/,
    ],
    [
      ["--port", "0", "--state", join(folder, "notes.db")],
      /^wamid-relay: .*notes\.db is not a sandbox's state file\n$/,
    ],
  ];
  for (const [args, words] of refusals) {
    const { code, out, err } = await runHere(["sandbox", ...args]);
    expect([code, out]).toEqual([1, ""]);
    expect(err).toMatch(words);
  }
  expect((await runCli(["sandbox", "--port", String(port)])).code).toBe(1);
  for (const args of [
    ["--port", "x"],
    ["--port", "0", "--plan", "free"],
    ["--port", "0", "--key", "a b"],
    ["--drop", "2"],
    ["--speed", "0"],
    ["--fail", "418"],
    ["--webhook", "ftp://x"],
  ]) {
    expect((await runHere(["sandbox", ...args])).code, args.join(" ")).toBe(2);
  }
});

test("with --format meta, prints a curl command and an init command that fit Meta's Cloud API", async () => {
  const callback = await openCallback();
  const sandbox = spawnSandbox(
    [
      "--port",
      "0",
      "--speed",
      "50",
      "--format",
      "meta",
      "--number",
      "106540352242922",
      "--meta",
      "early:0.5",
      "--batch",
      "2",
    ].concat(["--webhook", callback.url, "--webhook", "http://127.0.0.1:1/down"]),
    { env: { SANDBOX_SECRET: callback.appSecret, SANDBOX_VERIFY_TOKEN: callback.verifyToken } },
  );
  await until("it is ready", () => sandbox.lines.some((line) => line.includes("init --yes")));
  await until("the callback is verified", () =>
    sandbox.lines.some((line) => line.endsWith(`callback ${callback.url} verified`)),
  );
  await until("the other is named", () =>
    sandbox.lines.some((line) => /:1\/down not verified: .*gets nothing until then$/.test(line)),
  );
  const text = sandbox.lines.join("\n");
  expect(text).toMatch(
    / init --yes \\\s+--provider meta \\\s+--app-secret 'app secret' \\\s+--verify-token 'verify token' \\\s+--downstream /,
  );
  const curl = /^ {2}(curl [\s\S]*?'\{.*\}')$/m.exec(text)?.[1] ?? "";
  const { stdout } = await run("bash", ["-c", `${curl.replace("curl ", "curl -s ")}`]);
  const { messages } = JSON.parse(stdout) as { messages: { id: string }[] };
  await until("the first status is posted", () =>
    callback.statuses().includes(`${messages[0]?.id} sent`),
  );
  await until("it is printed", () =>
    sandbox.lines.some((line) =>
      / event {4}messages (sent|\(2 updates\)) → http:\S+ 200$/.test(line),
    ),
  );
  expect(callback.taken()[0]).toMatchObject({
    phoneNumberId: "106540352242922",
    item: { biz_opaque_callback_data: "order-1" },
  });
  expect(await runHere(["sandbox", "--meta", "dance:1"])).toMatchObject({
    code: 2,
    err: expect.stringContaining("skip, early"),
  });
  for (const [args, error] of [
    [["--batch", "2"], "--batch needs --format meta"],
    [["--format", "meta", "--batch", "1001"], "--batch: must be at most 1000"],
    [["--format", "meta", "--meta", "early:2"], "--meta: must be at most 1"],
    [["--fail", "500:2"], "--fail: must be at most 1"],
    [["--number", "x"], "--number: must be digits"],
    [["--speed", "fast"], "It must be a number."],
  ] as const) {
    expect(await runHere(["sandbox", "--port", "0", ...args])).toMatchObject({
      code: 2,
      err: expect.stringContaining(error),
    });
  }
});
