import { chmodSync, closeSync, openSync, writeFileSync, writeSync } from "node:fs";
import { createServer } from "node:http";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openDownstream } from "../../harness/downstream.ts";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { makeRelayHere, type RelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { startRelay } from "../../harness/relay-process.ts";
import { routeTo, settingsOf } from "../../harness/relay-settings.ts";
import { rowsOf } from "../../harness/store-rows.ts";
import { until } from "../../harness/until.ts";
import { freePort } from "../../setup/free-port.ts";
import { runOn, runProcessOn } from "./run-cli.ts";

interface Check {
  readonly check: string;
  readonly level: "ok" | "warn" | "fail" | "skip";
  readonly message: string;
  readonly todo?: string;
}

async function examine(relay: RelayHere, ...more: string[]): Promise<{ code: number | null; err: string; checks: Check[] }> {
  const { code, out, err } = await runOn(relay, "doctor", "--json", ...more);
  const { ok, checks } = JSON.parse(out) as { ok: boolean; checks: Check[] };
  expect(ok).toBe(code === 0);
  return { code, err, checks };
}

function find(checks: readonly Check[], check: string, level?: string): Check[] {
  return checks.filter((found) => found.check === check && (level === undefined || found.level === level));
}

async function listening(server: {
  listen: (port: number, host: string, done: () => void) => unknown;
  address(): unknown;
  close(): unknown;
}) {
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

test("a relay in good health: every line ok, exit code 0", async () => {
  const downstream = await openDownstream();
  const relay = await startRelay({ settings: { routes: [routeTo(downstream.url)] } });
  chmodSync(join(relay.folder, "relay.yaml"), 0o640);
  await postEvent(relay.webhookUrl, createMessages("healthy").event());
  await until("delivered", () => downstream.counts().taken === 1);
  const { code, out, err } = await runProcessOn(relay, "doctor", "--deep");
  expect([code, err]).toEqual([0, ""]);
  expect(out.match(/^(warn|fail).*$/gm)).toBeNull();
  for (const told of [
    `ready at ${relay.url}`,
    `held by process ${relay.pid()} on`,
    "the whole file is in order",
    "is reachable: answered in",
    "nothing needs action",
    "agrees with 1 of the destinations",
    "verified 1 event",
  ]) {
    expect(out).toContain(told);
  }
  // It only looked.
  expect(downstream.arrivals.filter(({ path }) => path !== "/")).toHaveLength(0);
});

test("lists the faults of the settings, one per line, and checks nothing else", async () => {
  const relay = await makeRelayHere();
  writeFileSync(join(relay.folder, "relay.yaml"), "server: { port: many }\nnothing: 1\n");
  const { code, err, checks } = await examine(relay);
  expect([code, err]).toEqual([1, "wamid-relay: 2 of 2 checks failed\n"]);
  expect(checks.map(({ check, level }) => [check, level])).toEqual([
    ["settings", "fail"],
    ["settings", "fail"],
  ]);
});

test("reports stopped, dead, quarantined and unreachable with what to do", async () => {
  const downstream = await openDownstream();
  downstream.fail({ status: 410 }, "/gone");
  downstream.fail({ status: 422 }, "/refused");
  const relay = await startRelayHere({
    settings: {
      routes: [
        routeTo(`${downstream.url}/gone`, { name: "gone" }),
        routeTo(`${downstream.url}/refused`, { name: "refused", to: { retry: { schedule: ["0s"] } } }),
        routeTo("http://127.0.0.1:1/", { name: "away", match: { events: ["nothing"] } }),
      ],
    },
  });
  await postEvent(relay.webhookUrl, createMessages("ill").event());
  await postEvent(relay.webhookUrl, Buffer.from("{}"));
  await until("stopped and dead", () => {
    const [stopped] = rowsOf<{ n: number }>(relay.storePath, "SELECT count(*) AS n FROM state WHERE key LIKE 'stop/%'");
    const [dead] = rowsOf<{ n: number }>(relay.storePath, "SELECT count(*) AS n FROM deliveries WHERE state = 1");
    return stopped?.n === 1 && dead?.n === 1;
  });
  const { code, checks } = await until("the relay lists them", async () => {
    const found = await examine(relay);
    return find(found.checks, "destination-stopped").length === 1 && find(found.checks, "quarantined").length === 1 ? found : null;
  });
  expect(code).toBe(1);
  expect(find(checks, "destination-stopped")).toMatchObject([
    {
      level: "fail",
      message: expect.stringMatching(/^gone is stopped: .*410.*\. 1 delivery waits\. Repair the destination, then resume it\.$/),
      todo: expect.stringContaining("wamid-relay resume gone"),
    },
  ]);
  expect(find(checks, "destination", "fail").map(({ message }) => message)).toEqual([
    "away: http://127.0.0.1:1: no connection (ECONNREFUSED)",
  ]);
  expect(find(checks, "dead-letters")).toMatchObject([
    { level: "warn", message: expect.stringMatching(/^1 delivery to refused ran out of attempts/) },
  ]);
  expect(find(checks, "quarantined")).toMatchObject([
    { level: "warn", message: expect.stringMatching(/^1 signed webhook is not a valid event/) },
  ]);

  relay.writeSettings({ routes: [] });
  const gone = find((await examine(relay)).checks, "backlog", "warn");
  expect(gone).toMatchObject([{ message: "1 delivery waits for the route gone, which is not in the settings" }]);
});

test("warns about files that others can read, and accepts that no relay runs", async () => {
  const relay = await startRelayHere();
  await relay.stop();
  chmodSync(relay.storePath, 0o644);
  chmodSync(join(relay.folder, "relay.yaml"), 0o644);
  const { code, checks } = await examine(relay);
  expect(code).toBe(0);
  expect(find(checks, "store permissions")).toMatchObject([{ level: "warn", todo: `chmod 600 ${relay.storePath}` }]);
  expect(find(checks, "settings file")).toMatchObject([{ level: "warn", message: expect.stringContaining("holds 2 secrets in clear") }]);
  expect(find(checks, "relay")).toMatchObject([{ level: "warn", todo: "wamid-relay serve" }]);
  expect(find(checks, "holder")[0]?.message).toMatch(/^held by nobody; last by process \d+/);
});

test("a relay that holds the file and does not answer, and a stranger on its port, fail", async () => {
  const relay = await startRelayHere();
  const elsewhere = join(relay.folder, "elsewhere.yaml");
  const downstream = await openDownstream();
  for (const [port, told] of [
    [await freePort(), "holds the store, and nothing answers at"],
    [Number(new URL(downstream.url).port), "is not a wamid-relay"],
  ] as const) {
    writeFileSync(elsewhere, JSON.stringify(settingsOf({ port, storePath: relay.storePath })));
    const { code, out } = await runOn({ settingsPath: elsewhere }, "doctor", "--json");
    expect(code).toBe(1);
    expect(find((JSON.parse(out) as { checks: Check[] }).checks, "relay", "fail")[0]?.message).toContain(told);
  }
});

test("finds a damaged file, with and without --deep", async () => {
  const relay = await startRelayHere();
  const messages = createMessages("damaged");
  for (let each = 0; each < 40; each++) await postEvent(relay.webhookUrl, messages.event());
  await relay.stop();
  const [root] = rowsOf<{ rootpage: number }>(relay.storePath, "SELECT rootpage FROM sqlite_schema WHERE name = 'subjects'");
  const file = openSync(relay.storePath, "r+");
  writeSync(file, Buffer.alloc(4096, 0xff), 0, 4096, ((root?.rootpage ?? 0) - 1) * 4096);
  closeSync(file);
  const found = find((await examine(relay, "--deep")).checks, "integrity");
  expect(found).toMatchObject([{ level: "fail", message: expect.stringContaining("the file is damaged") }]);
  const listed = await runOn(relay, "events", "list");
  expect([listed.code, listed.out]).toEqual([1, ""]);
  expect(listed.err).toMatch(/^wamid-relay: \S+ cannot be read: .*malformed.*\n$/);
});

test("asks the relay what needs action: a destination that refuses everything fails, and --strict fails on a warning", async () => {
  const downstream = await openDownstream();
  const route = routeTo(`${downstream.url}/hook`, { to: { retry: { schedule: ["0s", "1h"], jitter: 0 } } });
  const relay = await startRelayHere({ settings: { routes: [route] } });
  chmodSync(join(relay.folder, "relay.yaml"), 0o644);
  const exposed = ["warn", "settings file"];
  const notOk = (checks: readonly Check[]) => checks.flatMap(({ level, check }) => (/warn|fail/.test(level) ? [[level, check]] : []));
  const [usual, strict] = [await examine(relay), await examine(relay, "--strict")];
  expect([usual.code, notOk(usual.checks)]).toEqual([0, [exposed]]);
  expect([strict.code, strict.err, notOk(strict.checks)]).toEqual([1, expect.stringContaining("1 warned"), [exposed]]);

  downstream.fail({ status: 401 }, "/hook");
  const messages = createMessages("refused");
  for (let n = 0; n < 10; n++) await postEvent(relay.webhookUrl, messages.event());
  await until("ten are refused", () => downstream.arrivals.filter(({ path }) => path === "/hook").length === 10);
  const judged = await until("the relay lists it", async () => {
    const found = find((await examine(relay)).checks, "destination-failing");
    return found[0]?.message.startsWith("everything answers 401. 10 deliveries wait.") === true ? found : null;
  });
  const overview = (await relay.ask("/v1/overview")).body as { attention: { text: string }[] };
  expect(judged[0]?.message).toBe(overview.attention[0]?.text);
  await relay.stop();
  expect(find((await examine(relay)).checks, "destination-failing")).toMatchObject([{ message: judged[0]?.message }]);
});

test("reports a destination with another clock, and one that accepts and does not answer or answers 503", {
  tags: ["slow"],
}, async () => {
  const skewed = createServer((_request, response) => {
    response.setHeader("date", new Date(Date.now() + 300_000).toUTCString());
    response.end();
  });
  const silent = createTcpServer((socket) => void socket.on("error", () => {}));
  const down = createServer((_request, response) => void response.writeHead(503).end());
  const relay = await makeRelayHere({
    settings: {
      routes: [
        routeTo(`http://127.0.0.1:${await listening(skewed)}/a/secret/path`, { name: "skewed" }),
        routeTo(`http://127.0.0.1:${await listening(silent)}/`, { name: "silent" }),
        routeTo(`http://127.0.0.1:${await listening(down)}/`, { name: "down" }),
      ],
    },
  });
  const { code, checks } = await examine(relay);
  expect(code).toBe(0);
  expect(find(checks, "destination").map(({ level, message }) => [level, message.replace(/^(\w+): \S+/, "$1")])).toEqual([
    ["ok", expect.stringMatching(/^skewed is reachable: answered in \d+ ms$/)],
    ["warn", "silent accepts connections, and does not answer a HEAD request"],
    ["warn", "down is reachable, and answers 503 to a HEAD request"],
  ]);
  expect(find(checks, "clock")).toMatchObject([
    { level: "warn", message: expect.stringMatching(/^the clock of skewed is 5 min ahead of/) },
  ]);
});
