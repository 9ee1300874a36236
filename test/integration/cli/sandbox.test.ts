import { execFile, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseEnv, promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { openDownstream } from "../../harness/downstream.ts";
import { entry } from "../../harness/relay-process.ts";
import { runCli } from "../../harness/run-cli.ts";
import { runHere } from "../../harness/run-here.ts";
import { readyLine, spawnSandbox } from "../../harness/sandbox-process.ts";
import { until } from "../../harness/until.ts";
import { freePort } from "../../setup/free-port.ts";
import { openCallback } from "../sandbox/meta/callback.ts";

const run = promisify(execFile);

function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "wamid-relay-cli-sandbox-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

test("prints a curl command and an init command that work", async () => {
  const folder = makeFolder();
  const sandbox = spawnSandbox(["--port", "0", "--no-webhook", "--service", "shop"], {
    env: { SANDBOX_KEY: "shop_live_of_ci", SANDBOX_SECRET: "a secret of ${our} ci" },
  });
  // Its last line: a pipe may hand over what was written at once in two pieces.
  await until("it is ready", () => sandbox.lines.some((line) => line.includes("--downstream")));
  const text = sandbox.lines.join("\n");
  expect(text).toContain("key        shop_live_of_ci");
  expect(text).toContain("secret     a secret of ${our} ci  (signs events, in the header x-shop-signature)");
  const curl = /^ {2}(curl [\s\S]*?'\{.*\}')$/m.exec(text)?.[1] ?? "";
  const { stdout } = await run("bash", ["-c", `${curl.replace("curl ", "curl -s ")}`]);
  expect(JSON.parse(stdout)).toMatchObject({ status: "pending", wamid: expect.any(String) });
  await until("the message is told", () => sandbox.lines.some((line) => / message {2}\+5491155551234 api: pending {2}/.test(line)));
  const init = /^ {2}(wamid-relay init [\s\S]*?--downstream \S+)$/m.exec(text)?.[1] ?? "";
  await run("bash", ["-c", init.replace("wamid-relay", `${process.execPath} ${entry}`)], { cwd: folder });
  expect(parseEnv(readFileSync(join(folder, ".env"), "utf8"))).toMatchObject({
    WEBHOOK_SECRET: "a secret of ${our} ci",
    MESSAGING_API_KEY: "shop_live_of_ci",
  });
  expect(await runHere(["config", "check", "--config", join(folder, "relay.yaml")])).toMatchObject({ code: 0, err: "" });
  const printed = await runHere(["config", "print", "--config", join(folder, "relay.yaml"), "--json"]);
  expect(JSON.parse(printed.out)).toMatchObject({ accounts: { main: { plan: "escala" } }, server: { port: 8080 } });
  // Twice: Ctrl-C under npm run comes from the terminal and from npm.
  sandbox.child.kill("SIGINT");
  sandbox.child.kill("SIGINT");
  expect(await sandbox.ended()).toEqual({ code: 0, signal: null });
  expect(sandbox.stderr()).toBe("");
});

test("a relay with the settings of its init command accepts its events", async () => {
  const folder = makeFolder();
  const config = join(folder, "relay.yaml");
  const port = await freePort();
  const webhook = `http://127.0.0.1:${port}/webhooks/main`;
  const sandbox = spawnSandbox(["--port", "0", "--speed", "50", "--webhook", webhook]);
  await until("it is ready", () => sandbox.lines.some((line) => line.includes("--port")));
  const text = sandbox.lines.join("\n");
  const init = /^ {2}(wamid-relay init [\s\S]*?--port \d+)$/m.exec(text)?.[1] ?? "";
  await run("bash", ["-c", init.replace("wamid-relay", `${process.execPath} ${entry}`)], { cwd: folder });
  const { RELAY_TOKEN: token, MESSAGING_API_KEY: key } = parseEnv(readFileSync(join(folder, ".env"), "utf8"));
  const [, apiUrl] = /API root +(\S+)/.exec(text) ?? [];
  const [, templateId] = /"template":{"id":"([^"]+)"/.exec(text) ?? [];
  const relay = spawn(process.execPath, [entry, "serve", "--config", config], { cwd: folder, stdio: "ignore" });
  onTestFinished(() => void relay.kill("SIGKILL"));
  const get = (path: string) => fetch(`http://127.0.0.1:${port}${path}`, { headers: { authorization: `Bearer ${token}` } });
  await until("the relay is ready", async () => (await get("/readyz").catch(() => null))?.status === 200);
  const sent = await fetch(`${apiUrl}/messages`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ to: "+5491155550001", template: { id: templateId } }),
  });
  expect(sent.status).toBe(201);
  await until("both statuses are there", async () => {
    const { data } = (await (await get("/v1/events")).json()) as { data: { status: string }[] };
    return data.length === 2 && data[0]?.status === "delivered";
  });
  await until("and told", () => sandbox.lines.filter((line) => / event .* 200$/.test(line)).length === 2);
});

test("its state file keeps everything it answered across kill -9", async () => {
  const folder = makeFolder();
  const downstream = await openDownstream();
  downstream.fail({ status: 503 });
  const args = ["--port", "0", "--json", "--state", join(folder, "state.db"), "--webhook", downstream.url];
  const first = spawnSandbox(args);
  const ready = await readyLine(first);
  const ask = (base: string, path: string, body?: unknown) =>
    fetch(`${base}${path}`, {
      method: body === undefined ? "GET" : "POST",
      headers: { authorization: `Bearer ${ready.key}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    }).then(async (answer) => (answer.status < 300 ? ((await answer.json()) as { id: string; status: string; data: unknown[] }) : null));
  const sent: string[] = [];
  const sending = (async () => {
    for (let n = 0; n < 58; n += 1) {
      const answer = await ask(ready.apiUrl, "/messages", { to: `+54911555${n}0001`, template: { id: ready.templateId } });
      if (answer !== null) sent.push(answer.id);
    }
  })().catch(() => "cut off");
  await until("some are sent, and an event was refused", () => sent.length > 20 && downstream.counts().failed > 0);
  first.child.kill("SIGKILL");
  await sending;
  expect((await first.ended()).signal).toBe("SIGKILL");
  const before = sent.length;

  downstream.recover();
  const second = spawnSandbox([...args, "--speed", "20"]);
  const again = await readyLine(second);
  expect([again.key, again.secret, again.templateId, again.webhooks]).toEqual([ready.key, ready.secret, ready.templateId, ready.webhooks]);
  for (const id of sent) expect(await ask(again.url, `/sandbox/messages/${id}`), id).not.toBeNull();
  const { data } = (await ask(again.apiUrl, "/contacts?limit=200")) as { data: unknown[] };
  expect(data.length).toBeGreaterThanOrEqual(before);
  const usage = (await ask(again.url, "/sandbox/usage")) as unknown as { apiCalls: { used: number } };
  expect(usage.apiCalls.used).toBeGreaterThan(before);
  await fetch(`${again.url}/sandbox/clock`, { method: "POST", body: '{"advanceMs": 600000}' });
  expect(await ask(again.url, "/sandbox/deliveries/waiting?forMs=150000")).toEqual({ waiting: 0 });
  for (const id of sent) expect((await ask(again.url, `/sandbox/messages/${id}`))?.status, id).toBe("delivered");
  expect(downstream.counts().taken + downstream.counts().arrivals).toBeGreaterThan(sent.length);
  second.child.kill("SIGTERM");
  expect((await second.ended()).code).toBe(0);
});

test("flags reach the sandbox: plan, faults, seed, quiet, unlimited", async () => {
  const args = ["--port", "0", "--json", "--quiet", "--plan", "enterprise", "--unlimited", "--seed", "x", "--no-webhook"];
  const sandbox = spawnSandbox([...args, "--duplicate", "0.25", "--fail", "502:0.5", "--fail", "hang", "--key", "acme_live_given"]);
  const { url, key } = await readyLine(sandbox);
  expect(key).toBe("acme_live_given");
  const { accounts, faults } = (await (await fetch(`${url}/sandbox`)).json()) as Record<string, unknown>;
  expect(accounts).toEqual([{ name: "main", plan: "enterprise" }]);
  expect(faults).toMatchObject({
    events: { duplicate: 0.25, drop: 0 },
    api: [
      { answer: 502, share: 0.5 },
      { answer: "hang", share: 1 },
    ],
  });
  await fetch(`${url}/sandbox/customers/+5491155550001/messages`, { method: "POST", body: '{"text":"hola"}' });
  expect(sandbox.lines).toHaveLength(1);
});

test("starts with a plan without the API, and warns about a public host", async () => {
  const sandbox = spawnSandbox(["--port", "0", "--json", "--plan", "trial", "--host", "0.0.0.0"]);
  const { webhooks, apiUrl, key } = await readyLine(sandbox);
  expect(webhooks).toEqual([]);
  expect((await fetch(`${apiUrl}/me`, { headers: { authorization: `Bearer ${key}` } })).status).toBe(402);
  await until("it has warned", () => sandbox.stderr().includes("\n"));
  expect(sandbox.stderr()).toMatch(/^warning: --host 0\.0\.0\.0 lets others in: [^\n]*\n$/);
});

test("exits with 1 and one line on errors, and with 2 on wrong usage", async () => {
  const folder = makeFolder();
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void taken.close());
  const { port } = taken.address() as { port: number };
  writeFileSync(join(folder, "notes.db"), "this is no database, but it is long enough to be looked at as one. ".repeat(20));
  const refusals: [args: string[], words: RegExp][] = [
    [["--port", String(port)], /^wamid-relay: port \d+ on 127\.0\.0\.1 is taken by another process\n$/],
    [["--port", "0", "--state", join(folder, "notes.db")], /^wamid-relay: .*notes\.db is not a sandbox's state file\n$/],
  ];
  for (const [args, words] of refusals) {
    const { code, out, err } = await runHere(["sandbox", ...args]);
    expect([code, out]).toEqual([1, ""]);
    expect(err).toMatch(words);
  }
  expect(await runCli("sandbox", "--port", String(port))).toMatchObject({ code: 1, stdout: "" });
  for (const args of [
    ["--port", "x"],
    ["--port", "0", "--plan", "free"],
    ["--port", "0", "--key", "a b"],
    ["--drop", "2"],
    ["--speed", "0"],
    ["--fail", "418"],
    ["--fail", "500:2"],
    ["--webhook", "ftp://x"],
    ["--wat"],
  ]) {
    expect((await runHere(["sandbox", ...args])).code, args.join(" ")).toBe(2);
  }
});

test("with --format meta, prints a curl command and an init command that fit Meta's Cloud API", async () => {
  await using callback = await openCallback();
  const sandbox = spawnSandbox(
    ["--port", "0", "--speed", "50", "--format", "meta", "--number", "106540352242922", "--meta", "early:0.5", "--batch", "2"].concat([
      "--webhook",
      callback.url,
    ]),
    { env: { SANDBOX_SECRET: callback.appSecret, SANDBOX_VERIFY_TOKEN: callback.verifyToken } },
  );
  await until("it is ready", () => sandbox.lines.some((line) => line.includes("init --yes")));
  await until("the callback is verified", () => sandbox.lines.some((line) => line.endsWith(`callback ${callback.url} verified`)));
  const text = sandbox.lines.join("\n");
  expect(text).toMatch(
    / init --yes \\\s+--provider meta \\\s+--app-secret 'app secret' \\\s+--verify-token 'verify token' \\\s+--downstream /,
  );
  const curl = /^ {2}(curl [\s\S]*?'\{.*\}')$/m.exec(text)?.[1] ?? "";
  const { stdout } = await run("bash", ["-c", `${curl.replace("curl ", "curl -s ")}`]);
  const { messages } = JSON.parse(stdout) as { messages: { id: string }[] };
  await until("the first status is posted", () => callback.statuses().includes(`${messages[0]?.id} sent`));
  await until("it is printed", () => sandbox.lines.some((line) => / event {4}messages (sent|\(2 updates\)) → http:\S+ 200$/.test(line)));
  expect(callback.taken()[0]).toMatchObject({ phoneNumberId: "106540352242922", item: { biz_opaque_callback_data: "order-1" } });
  expect(await runHere(["sandbox", "--meta", "dance:1"])).toMatchObject({ code: 2, err: expect.stringContaining("skip, early") });
  expect(await runHere(["sandbox", "--batch", "1001"])).toMatchObject({ code: 2 });
});
