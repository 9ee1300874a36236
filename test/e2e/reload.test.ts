import { readFileSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { openDownstream } from "../harness/downstream.ts";
import { postEvent } from "../harness/post-event.ts";
import { createMessages, postOf } from "../harness/posts.ts";
import { type RelayProcess, startRelay } from "../harness/relay-process.ts";
import { relayToken, routeTo, type SettingsParts, webhookSecret } from "../harness/relay-settings.ts";
import { openSender } from "../harness/sender.ts";
import { until } from "../harness/until.ts";

const reloads = (relay: RelayProcess) => relay.log().filter(({ msg }) => msg === "settings reloaded").length;

/** Writes other settings, sends SIGHUP and waits until they are in force. */
async function reload(relay: RelayProcess, parts: SettingsParts): Promise<void> {
  const before = reloads(relay);
  relay.writeSettings(parts);
  relay.signal("SIGHUP");
  await until("the settings are reloaded", () => reloads(relay) > before);
}

const sourceWith = (...secrets: string[]) => ({ main: { account: "main", signature: { service: "acme", secrets } } });

test("a new route takes what comes from then on, and a changed one goes to its new destination", async () => {
  const downstream = await openDownstream();
  const relay = await startRelay({ settings: { routes: [routeTo(`${downstream.url}/a`, { name: "a" })] } });
  const messages = createMessages("new route");
  await postEvent(relay.webhookUrl, messages.event());
  await until("the first is delivered", () => downstream.counts("/a").taken === 1);
  await reload(relay, { routes: [routeTo(`${downstream.url}/moved`, { name: "a" }), routeTo(`${downstream.url}/b`, { name: "b" })] });
  await postEvent(relay.webhookUrl, messages.event());
  await until("both routes deliver", () => downstream.counts("/moved").taken === 1 && downstream.counts("/b").taken === 1);
  expect(downstream.counts("/a").arrivals).toBe(1);
});

test("a removed route's deliveries wait, over a restart too, and go on in order when it is back", async () => {
  const downstream = await openDownstream();
  downstream.fail({ status: 500 });
  const routes = [routeTo(`${downstream.url}/a`, { name: "a" })];
  const other = [routeTo(`${downstream.url}/b`, { name: "b" })];
  const relay = await startRelay({ settings: { routes } });
  const messages = createMessages("removed route");
  const wamid = messages.wamid();
  const events = [messages.status(wamid, "sent"), messages.status(wamid, "delivered"), messages.event()];
  for (const event of events) await postEvent(relay.webhookUrl, event);
  await until("they fail", () => downstream.counts("/a").failed >= 2);
  await reload(relay, { routes: other });
  downstream.recover();
  const arrived = downstream.counts("/a").arrivals;
  const later = messages.event();
  await postEvent(relay.webhookUrl, later);
  await until("the other route delivers", () => downstream.counts("/b").taken === 1);
  expect((await relay.ask("/v1/stats")).body).toMatchObject({ deliveries: { waiting: 2, held: 1, delivered: 1 } });
  await relay.stop();
  await relay.start();
  await postEvent(relay.webhookUrl, messages.event());
  await until("the other route delivers again", () => downstream.counts("/b").taken === 2);
  // An attempt that was under way while the route went may still have arrived.
  expect(downstream.counts("/a").arrivals).toBeLessThanOrEqual(arrived + 2);

  await reload(relay, { routes: [...routes, ...other] });
  await until("they go out", () => downstream.counts("/a").taken === 3);
  const ofMessage = downstream.arrivals.filter((arrival) => arrival.path === "/a" && arrival.wamid === wamid && arrival.answered === 200);
  expect(ofMessage.map(({ eventId }) => eventId)).toEqual([events[0]?.id, events[1]?.id]);
  expect(downstream.arrivals.some((arrival) => arrival.path === "/a" && arrival.eventId === later.id)).toBe(false);
});

test("rotated secrets work at once: of a source, of a destination, of the control API", async () => {
  const downstream = await openDownstream({ secrets: { "/old": "first-secret", "/new": "second-secret" } });
  const signed = (path: string, secret: string) => [routeTo(`${downstream.url}${path}`, { to: { secret } })];
  const relay = await startRelay({ settings: { routes: signed("/old", "first-secret") } });
  const messages = createMessages("rotation");
  const post = (secret: string) => postEvent(relay.webhookUrl, messages.event(), { secret });
  expect((await post(webhookSecret)).status).toBe(200);
  expect((await post("next-secret")).status).toBe(401);

  await reload(relay, { routes: signed("/new", "second-secret"), sources: sourceWith("next-secret", webhookSecret) });
  expect((await post(webhookSecret)).status).toBe(200);
  expect((await post("next-secret")).status).toBe(200);
  await until("both are delivered", () => downstream.counts("/new").taken === 2);

  const tokens = [{ name: "harness", token: "another-control-token-for-tests", scopes: ["read"] }];
  await reload(relay, { routes: signed("/new", "second-secret"), sources: sourceWith("next-secret"), control: { tokens } });
  expect((await post(webhookSecret)).status).toBe(401);
  expect((await post("next-secret")).status).toBe(200);
  expect((await relay.ask("/v1/stats")).status).toBe(401);
  const withNew = await fetch(`${relay.url}/v1/stats`, { headers: { authorization: "Bearer another-control-token-for-tests" } });
  expect(withNew.status).toBe(200);
  await until("the last is delivered", () => downstream.counts("/new").taken === 3);
  expect(downstream.counts()).toMatchObject({ badSignatures: 0 });
  for (const secret of [webhookSecret, relayToken, "next-secret", "another-control-token-for-tests", "second-secret"]) {
    expect(JSON.stringify(relay.log()) + relay.stderr()).not.toContain(secret);
  }
});

test("a bad file keeps the running settings and says why, as often as it is tried", async () => {
  const downstream = await openDownstream();
  const relay = await startRelay({ settings: { routes: [routeTo(downstream.url)] } });
  const messages = createMessages("bad file");
  const good = readFileSync(relay.settingsPath, "utf8");
  const faults: readonly (readonly [string, RegExp])[] = [
    ["routes: [", /relay\.yaml/],
    ['{"routes": [{"name": "x", "to": {"url": "ftp://x"}}], "surce": {}}', /routes[.[]0.*url.*surce/s],
    [good.replace(webhookSecret, "${NOT_SET_ANYWHERE}"), /NOT_SET_ANYWHERE/],
  ];
  for (const [text, why] of faults) {
    const before = relay.stderr().length;
    writeFileSync(relay.settingsPath, text);
    relay.signal("SIGHUP");
    const said = await until(
      "it says why",
      () => /settings not reloaded, the running ones stay: .*\n/s.exec(relay.stderr().slice(before))?.[0],
    );
    expect(said).toMatch(why);
    expect(await postEvent(relay.webhookUrl, messages.event())).toMatchObject({ word: "accepted" });
  }
  expect(reloads(relay)).toBe(0);
  await until("deliveries go on", () => downstream.counts().taken === faults.length);
  // Once it is put right, it is taken.
  await reload(relay, { routes: [routeTo(`${downstream.url}/right`)] });
  await postEvent(relay.webhookUrl, messages.event());
  await until("the new settings count", () => downstream.counts("/right").taken === 1);
});

test("settings that only a restart changes are named, and the others are taken", async () => {
  const relay = await startRelay({ settings: { routes: [routeTo("http://127.0.0.1:9/")] } });
  await reload(relay, { routes: [routeTo("http://127.0.0.1:9/")], server: { maxInFlight: 7 }, log: { level: "info", pii: "clear" } });
  const said = await until("it says so", () => relay.stderr().includes("log changed") && relay.stderr());
  expect(said).toContain("warning: server changed; that takes a restart");
  expect(said).not.toContain("storage changed");
});

test("twenty reloads under load: no request fails, nothing is lost or delivered twice", async () => {
  const downstream = await openDownstream({ keepBodies: false });
  const routesAt = (n: number) => [routeTo(downstream.url, { to: { concurrency: 4 + (n % 3) } })];
  const relay = await startRelay({ settings: { routes: routesAt(0) } });
  const messages = createMessages("reloads");
  const sender = openSender(relay, { concurrency: 16, rate: 800, retry: { tries: 1, firstMs: 1, longestMs: 1 } });
  const over = new AbortController();
  function* posts() {
    for (;;) yield postOf(messages.event());
  }
  const sending = sender.run(posts(), { signal: over.signal });
  for (let n = 1; n <= 20; n += 1) await reload(relay, { routes: routesAt(n), sources: sourceWith(webhookSecret, `secret-${n}`) });
  over.abort();
  const summary = await sending;
  expect(summary.accepted).toBe(summary.posts);
  await until("all are delivered", () => downstream.counts().taken === summary.posts);
  expect(downstream.counts()).toMatchObject({ duplicates: 0, failed: 0 });
});

test("another share of an account's caps counts at once; without its key it is no longer shown", async () => {
  const account = { baseUrl: "http://127.0.0.1:1", apiKey: "the-key-of-an-account" };
  const relay = await startRelay({ settings: { accounts: { main: account } } });
  const limits = async () =>
    [...String((await relay.ask("/metrics")).body).matchAll(/^relay_service_slots_limit(\{.*\} \d+)$/gm)].map((match) => match[1]);
  expect(await limits()).toEqual(['{account="main",cap="requests"} 150', '{account="main",cap="messages"} 30']);
  await reload(relay, { accounts: { main: { ...account, plan: "enterprise", share: 0.25 } } });
  expect(await limits()).toEqual(['{account="main",cap="requests"} 300', '{account="main",cap="messages"} 75']);
  await reload(relay, { accounts: { main: {} } });
  expect(await limits()).toEqual([]);
  expect((await relay.stop()).code).toBe(0);
});
