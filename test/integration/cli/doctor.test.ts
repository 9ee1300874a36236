// Slow: doctor waits for a destination that never answers.
import { chmodSync, closeSync, openSync, writeFileSync, writeSync } from "node:fs";
import { createServer as createTcpServer } from "node:net";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { openDownstream } from "../../harness/downstream.ts";
import { storageOf } from "../../harness/engines.ts";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { makeRelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { routeTo, settingsOf } from "../../harness/relay-settings.ts";
import { rowsOf } from "../../harness/store-rows.ts";
import { until } from "../../harness/until.ts";
import { freePort } from "../../setup/free-port.ts";
import { listen, startHttp } from "../url-destination/downstream.ts";
import { doctorOn, runOn, runProcessOn } from "./run-cli.ts";

const messages = createMessages("doctor");

test("a relay in good health: every line ok, exit code 0", async () => {
  const downstream = await openDownstream();
  const relay = await startRelayHere({ settings: { routes: [routeTo(downstream.url)] } });
  chmodSync(relay.settingsPath, 0o640);
  await postEvent(relay.webhookUrl, messages.event());
  await until("delivered", () => downstream.counts().taken === 1);
  const { code, out, err } = await runProcessOn(relay, "doctor", "--deep");
  expect([code, err, out.match(/^(warn|fail).*$/gm)]).toEqual([0, "", null]);
  for (const told of [
    `ready at ${relay.url}`,
    `held by process ${process.pid} on`,
    "the whole file is in order",
    "is reachable: answered in",
    "nothing needs action",
    "agrees with 1 of the destinations",
    "verified 1 event",
  ])
    expect(out).toContain(told);
  // It only looked.
  expect(downstream.arrivals.filter(({ path }) => path !== "/")).toHaveLength(0);

  await relay.stop();
  const db = new Database(relay.storePath);
  db.exec("UPDATE counters SET n = n + 3600000 WHERE series = 'secretLast'");
  db.close();
  expect((await doctorOn(relay, "--offline")).said("clock")).toEqual([
    expect.stringMatching(
      /^warn the last event lies (5\d|60) min in the future: the clock was set back/,
    ),
  ]);
});

test("lists the faults of the settings, one per line, and checks nothing else", async () => {
  const relay = await makeRelayHere();
  writeFileSync(relay.settingsPath, "server: { port: many }\nnothing: 1\n");
  expect(await doctorOn(relay)).toMatchObject({
    code: 1,
    err: "wamid-relay: 2 of 2 checks failed\n",
    checks: Array(2).fill({ check: "settings", level: "fail" }),
  });
});

test("reports stopped, dead, quarantined and unreachable with what to do", async () => {
  const downstream = await openDownstream();
  downstream.fail({ status: 410 }, "/gone");
  downstream.fail({ status: 422 }, "/refused");
  const relay = await startRelayHere({
    settings: {
      routes: [
        routeTo(`${downstream.url}/gone`, { name: "gone" }),
        routeTo(`${downstream.url}/refused`, {
          name: "refused",
          to: { retry: { schedule: ["0s"] } },
        }),
        routeTo("http://127.0.0.1:1/", { name: "away", match: { events: ["nothing"] } }),
      ],
    },
  });
  await postEvent(relay.webhookUrl, messages.event());
  await postEvent(relay.webhookUrl, Buffer.from("{}"));
  const { code, checks, said } = await until("the relay lists them", async () => {
    const found = await doctorOn(relay);
    return found.said("destination-stopped", "dead-letters", "quarantined").length === 3 && found;
  });
  expect(code).toBe(1);
  expect(said("destination-stopped")).toEqual([
    expect.stringMatching(
      /^fail gone is stopped: .*410.*\. 1 delivery waits\. Repair the destination, then resume it\.$/,
    ),
  ]);
  expect(said("destination")).toContain(
    "fail away: http://127.0.0.1:1: no connection (ECONNREFUSED)",
  );
  expect(checks.find(({ message }) => message.startsWith("gone is"))?.todo).toContain(
    "wamid-relay resume gone",
  );
  expect(said("dead-letters")).toEqual([
    expect.stringMatching(/^warn 1 delivery to refused ran out of attempts/),
  ]);
  expect(said("quarantined")).toEqual([
    expect.stringMatching(/^warn 1 signed webhook is not a valid event/),
  ]);

  relay.writeSettings({ routes: [] });
  await relay.ask("/v1/reload", { method: "POST" });
  // The relay keeps an overview for a moment.
  const [missing] = await until("the relay misses the route", async () => {
    const found = (await doctorOn(relay)).said("route-missing");
    return found.length > 0 && found;
  });
  expect(missing).toMatch(
    /^warn 1 delivery waits for the route gone, which is not in the settings\./,
  );
});

test("warns about files that others can read, on which --strict fails, and accepts that no relay runs", async () => {
  const relay = await startRelayHere();
  await relay.stop();
  for (const path of [relay.storePath, relay.settingsPath]) chmodSync(path, 0o644);
  const { code, checks, said } = await doctorOn(relay);
  expect(code).toBe(0);
  expect(checks).toContainEqual(
    expect.objectContaining({ level: "warn", todo: `chmod 600 ${relay.storePath}` }),
  );
  expect(said("settings file")).toEqual([
    expect.stringMatching(/^warn .*holds 2 secrets in clear/),
  ]);
  expect(checks).toContainEqual(
    expect.objectContaining({ check: "relay", level: "warn", todo: "wamid-relay serve" }),
  );
  expect(said("holder")).toEqual([expect.stringMatching(/held by nobody; last by process \d+/)]);
  expect(await doctorOn(relay, "--strict")).toMatchObject({
    code: 1,
    err: expect.stringMatching(/^wamid-relay: 0 of \d+ checks failed, 4 warned/),
  });
});

test("a relay that holds the file and does not answer, and a stranger on its port, fail", async () => {
  const relay = await startRelayHere();
  const elsewhere = { settingsPath: join(relay.folder, "elsewhere.yaml") };
  const downstream = await openDownstream();
  for (const [port, told] of [
    [await freePort(), "holds the store, and nothing answers at"],
    [Number(new URL(downstream.url).port), "is not a wamid-relay"],
  ] as const) {
    writeFileSync(
      elsewhere.settingsPath,
      JSON.stringify(settingsOf({ port, storePath: relay.storePath })),
    );
    const { code, said } = await doctorOn(elsewhere);
    expect([code, ...said("relay")]).toEqual([1, expect.stringContaining(told)]);
  }
});

test("a PostgreSQL that does not answer fails, with what to look at", async () => {
  const relay = await makeRelayHere({
    settings: { storage: { driver: "postgres", url: "postgres://u@127.0.0.1:9/d" } },
  });
  const { code, checks } = await doctorOn(relay, "--offline");
  expect(code).toBe(1);
  expect(checks).toContainEqual({
    check: "store",
    level: "fail",
    message: expect.stringContaining("127.0.0.1:9"),
    todo: expect.stringContaining("check storage.url, that PostgreSQL runs and listens there"),
  });
});

test("finds a damaged file, with and without --deep", async () => {
  const relay = await startRelayHere();
  for (let each = 0; each < 40; each++) await postEvent(relay.webhookUrl, messages.event());
  await relay.stop();
  const [root] = rowsOf<{ rootpage: number }>(
    relay.storePath,
    "SELECT rootpage FROM sqlite_schema WHERE name = 'subjects'",
  );
  const file = openSync(relay.storePath, "r+");
  writeSync(file, Buffer.alloc(4096, 0xff), 0, 4096, ((root?.rootpage ?? 0) - 1) * 4096);
  closeSync(file);
  expect((await doctorOn(relay, "--deep")).said("integrity")).toEqual([
    expect.stringMatching(/^fail .*the file is damaged/),
  ]);
  const err = expect.stringMatching(/^wamid-relay: \S+ cannot be read: .*malformed.*\n$/);
  expect(await runOn(relay, "events", "list")).toEqual({ code: 1, out: "", err });
});

test("reports a destination with another clock, and one that accepts and does not answer or answers 503", {
  tags: ["slow"],
}, async () => {
  const skewed = await startHttp((_request, response) => {
    response.setHeader("date", new Date(Date.now() + 300_000).toUTCString()).end();
  });
  const silent = await listen(createTcpServer(), "127.0.0.1");
  const down = await startHttp((_request, response) => response.writeHead(503).end());
  const routes = Object.entries({ skewed, silent, down }).map(([name, { url }]) =>
    routeTo(`${url}/a/secret/path`, { name }),
  );
  const { code, said } = await doctorOn(await makeRelayHere({ settings: { routes } }));
  expect(code).toBe(0);
  expect(said("destination").map((line) => line.replace(/(\w+): \S+/, "$1"))).toEqual([
    expect.stringMatching(/^ok skewed is reachable: answered in \d+ ms$/),
    "warn silent accepts connections, and does not answer a HEAD request",
    "warn down is reachable, and answers 503 to a HEAD request",
  ]);
  expect(said("clock")).toEqual([
    expect.stringMatching(/^warn the clock of skewed is 5 min ahead of/),
  ]);
});

test("an empty database is as well as a file that is not there yet", async () => {
  const { said } = await doctorOn(
    await makeRelayHere({ settings: await storageOf("postgres") }),
    "--offline",
  );
  expect(said("store")).toEqual([
    expect.stringMatching(
      /^ok .*schema relay: there is no store yet; "wamid-relay serve" makes it/,
    ),
  ]);
  // The servers of tests do not wait for the disk.
  expect(said("database-unsafe")).toContainEqual(expect.stringMatching(/^fail .*fsync is off/));
});
