// @module-tag slow: it reloads a running relay many times under load.
import { readFileSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { openDownstream } from "../harness/downstream.ts";
import { postEvent } from "../harness/post-event.ts";
import { createMessages, postOf } from "../harness/posts.ts";
import { makeRelay, type RelayProcess } from "../harness/relay-process.ts";
import { routeTo, type SettingsParts, webhookSecret } from "../harness/relay-settings.ts";
import { openSender } from "../harness/sender.ts";
import { until } from "../harness/until.ts";

/**
 * One for all: each test begins with settings and routes of its own, and looks only at what is said
 * from then on.
 */
let relay: RelayProcess;
let hasFailed = false;
let before = { log: 0, stderr: 0 };
beforeAll(async () => {
  relay = await makeRelay();
});
afterAll(() => relay.dispose(hasFailed));
beforeEach(({ onTestFailed }) => {
  onTestFailed(() => {
    hasFailed = true;
  });
});

const logged = () => relay.log().slice(before.log);
const said = () => relay.stderr().slice(before.stderr);
const refusals = () =>
  logged().filter(({ msg }) => String(msg).startsWith("settings not reloaded"));
const reloads = () => logged().filter(({ msg }) => msg === "settings reloaded").length;
const lastReload = () => logged().findLast(({ msg }) => msg === "settings reloaded");

/** The settings a test begins with, in force. */
async function begin(parts: SettingsParts): Promise<void> {
  if (relay.isRunning()) await reload(parts);
  else {
    relay.writeSettings(parts);
    await relay.start();
  }
  before = { log: relay.log().length, stderr: relay.stderr().length };
}

/** Writes other settings, sends SIGHUP and waits until they are in force. */
async function reload(parts: SettingsParts): Promise<void> {
  const done = reloads();
  relay.writeSettings(parts);
  relay.signal("SIGHUP");
  await until("the settings are reloaded", () => reloads() > done);
}

const sourceWith = (...secrets: string[]) => ({
  main: { account: "main", signature: { service: "acme", secrets } },
});

test("a reload warns about probable mistakes, as a start does", async () => {
  const route = routeTo("https://downstream.example/", { name: "one" });
  await begin({ routes: [route] });
  await reload({ routes: [{ ...route, match: { statuses: ["fialed"] } }] });
  await until("the warning", () => said().includes("did you mean failed?"));
});

test("a removed route's deliveries wait, also across a restart, and continue in order when it returns", async () => {
  const downstream = await openDownstream();
  downstream.fail({ status: 500 });
  const routes = [routeTo(`${downstream.url}/a`, { name: "a" })];
  const other = [routeTo(`${downstream.url}/b`, { name: "b" })];
  await begin({ routes });
  const messages = createMessages("removed route");
  const wamid = messages.wamid();
  const events = [
    messages.status(wamid, "sent"),
    messages.status(wamid, "delivered"),
    messages.event(),
  ];
  for (const event of events) await postEvent(relay.webhookUrl, event);
  await until("they fail", () => downstream.counts("/a").failed >= 2);
  await reload({ routes: other });
  downstream.recover();
  const arrived = downstream.counts("/a").arrivals;
  const later = messages.event();
  await postEvent(relay.webhookUrl, later);
  await until("the other route delivers", () => downstream.counts("/b").taken === 1);
  expect((await relay.ask("/v1/deliveries?route=a&state=waiting")).body).toMatchObject({
    data: { length: 2 },
  });
  expect((await relay.ask("/v1/deliveries?route=a&state=held")).body).toMatchObject({
    data: { length: 1 },
  });
  await relay.stop();
  await relay.start();
  await postEvent(relay.webhookUrl, messages.event());
  await until("the other route delivers again", () => downstream.counts("/b").taken === 2);
  // An attempt that was under way while the route went may still have arrived.
  expect(downstream.counts("/a").arrivals).toBeLessThanOrEqual(arrived + 2);

  await reload({ routes: [...routes, ...other] });
  await until("they go out", () => downstream.counts("/a").taken === 3);
  const ofMessage = downstream.arrivals.filter(
    (arrival) => arrival.path === "/a" && arrival.wamid === wamid && arrival.answered === 200,
  );
  expect(ofMessage.map(({ eventId }) => eventId)).toEqual([events[0]?.id, events[1]?.id]);
  expect(
    downstream.arrivals.some((arrival) => arrival.path === "/a" && arrival.eventId === later.id),
  ).toBe(false);
});

test("a faulty file keeps the running settings, and every try reports why", async () => {
  const downstream = await openDownstream();
  await begin({ routes: [routeTo(downstream.url, { name: "kept" })] });
  const messages = createMessages("bad file");
  const good = readFileSync(relay.settingsPath, "utf8");
  const faults: readonly (readonly [string, RegExp])[] = [
    ["routes: [", /relay\.yaml/],
    [
      '{"routes": [{"name": "x", "to": {"url": "ftp://x"}}], "surce": {}}',
      /routes[.[]0.*url.*surce/s,
    ],
    [good.replace(webhookSecret, "${NOT_SET_ANYWHERE}"), /NOT_SET_ANYWHERE/],
  ];
  for (const [text, why] of faults) {
    const { length } = refusals();
    writeFileSync(relay.settingsPath, text);
    relay.signal("SIGHUP");
    const refusal = await until("it logs why", () => refusals()[length]);
    expect(JSON.stringify(refusal["faults"])).toMatch(why);
    expect(await postEvent(relay.webhookUrl, messages.event())).toMatchObject({ word: "accepted" });
  }
  expect(reloads()).toBe(0);
  await until("deliveries go on", () => downstream.counts().taken === faults.length);
  // Once it is put right, it is taken.
  await reload({ routes: [routeTo(`${downstream.url}/right`, { name: "kept" })] });
  await postEvent(relay.webhookUrl, messages.event());
  await until("the new settings count", () => downstream.counts("/right").taken === 1);
});

test("names settings that need a restart, and applies the others", async () => {
  await begin({ routes: [routeTo("http://127.0.0.1:9/")] });
  await reload({
    routes: [routeTo("http://127.0.0.1:9/")],
    server: { maxInFlight: 7 },
    log: { level: "info", pii: "clear" },
  });
  const paths = ["log.pii", "server.maxInFlight"];
  expect(lastReload()).toMatchObject({ trigger: "signal", changed: paths, needRestart: paths });
  // A reload that changes nothing more still names what the restart is needed for.
  await reload({
    routes: [routeTo("http://127.0.0.1:9/")],
    server: { maxInFlight: 7 },
    log: { level: "info", pii: "clear" },
  });
  expect(lastReload()).toMatchObject({ changed: [], needRestart: paths });
});

test("twenty reloads under load fail no request, and lose and repeat nothing", async () => {
  const downstream = await openDownstream({ keepBodies: false });
  const routesAt = (n: number) => [
    routeTo(downstream.url, { name: "loaded", to: { concurrency: 4 + (n % 3) } }),
  ];
  await begin({ routes: routesAt(0) });
  const messages = createMessages("reloads");
  const sender = openSender(relay, { concurrency: 16, rate: 800, retry: { tries: 1, waitMs: 0 } });
  const over = new AbortController();
  function* posts() {
    for (;;) yield postOf(messages.event());
  }
  const sending = sender.run(posts(), { signal: over.signal });
  for (let n = 1; n <= 20; n += 1)
    await reload({ routes: routesAt(n), sources: sourceWith(webhookSecret, `secret-${n}`) });
  over.abort();
  const summary = await sending;
  expect(summary.accepted).toBe(summary.posts);
  await until("all are delivered", () => downstream.counts().taken === summary.posts);
  expect(downstream.counts()).toMatchObject({ duplicates: 0, failed: 0 });
});
