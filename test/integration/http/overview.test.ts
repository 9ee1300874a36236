import { expect, test } from "vitest";
import type { RelayOverview } from "../../../src/model/overview.ts";
import { storageOf } from "../../harness/engines.ts";
import { openFlakyDownstream } from "../../harness/flaky-downstream.ts";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { type RelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";

const messages = createMessages("overview");
const overviewOf = async (relay: RelayHere): Promise<RelayOverview> =>
  (await relay.ask("/v1/overview")).body as RelayOverview;
const kindsOf = ({ attention }: RelayOverview) =>
  attention.map(({ kind, subject }) => `${kind} ${subject}`);

/** The first overview that meets the condition. */
const shown = (
  relay: RelayHere,
  what: string,
  condition: (overview: RelayOverview) => boolean,
): Promise<RelayOverview> =>
  until(what, async () => {
    const overview = await overviewOf(relay);
    return condition(overview) ? overview : null;
  });

test("lists a failing destination until it works again", async () => {
  let status = 503;
  const downstream = await openFlakyDownstream(() => ({ status }));
  const route = routeTo(`${downstream.url}/hook?token=secret`, {
    name: "crm",
    to: { breaker: { failures: 2, pause: "300ms", longest: "300ms" } },
  });
  const relay = await startRelayHere({
    settings: { tracking: { unknown: "forward" }, routes: [route] },
  });

  const before = await shown(
    relay,
    "it delivers the route",
    ({ destinations: [crm] }) => crm?.inFlight === 0,
  );
  expect(before).toMatchObject({
    relay: { storage: "sqlite" },
    attention: [],
    goodSince: before.relay.startedAt,
  });
  const host = new URL(downstream.url).host;
  expect(before.destinations).toMatchObject([
    { route: "crm", to: host, kind: "url", state: "ok", waiting: 0, inFlight: 0, nextAt: null },
  ]);

  const sentAt = Date.now();
  for (let n = 0; n < 3; n += 1)
    expect((await postEvent(relay.webhookUrl, messages.event())).status).toBe(200);
  const during = await shown(relay, "it fails", ({ attention }) => attention[0]?.waiting === 3);
  expect(during.attention).toMatchObject([
    { kind: "destination-failing", subject: "crm", action: "retry" },
  ]);
  expect(during.attention[0]?.text).toMatch(/^crm answers 503\. 3 deliveries wait\./);
  // The server and this process share the machine's clock.
  expect(Date.parse(during.attention[0]?.since ?? "")).toBeGreaterThanOrEqual(sentAt - 1);
  expect(Date.parse(during.attention[0]?.since ?? "")).toBeLessThanOrEqual(Date.now() + 1);
  expect(during.destinations).toMatchObject([
    { state: "attention", since: during.attention[0]?.since, reason: during.attention[0]?.text },
  ]);
  await shown(
    relay,
    "the next attempt has a time",
    ({ destinations: [crm] }) => crm?.nextAt !== null,
  );

  status = 200;
  const after = await shown(
    relay,
    "it works",
    ({ attention, destinations }) => attention.length === 0 && destinations[0]?.waiting === 0,
  );
  expect(after.destinations).toMatchObject([
    { state: "ok", reason: null, since: null, waiting: 0 },
  ]);
  expect(Date.parse(after.goodSince)).toBeGreaterThan(Date.parse(during.attention[0]?.since ?? ""));
});

test("lists a stopped destination, dead letters and quarantined webhooks until each is resolved", async () => {
  let status = 410;
  const downstream = await openFlakyDownstream((path) => ({
    status: path === "/gone" ? status : path === "/dead" ? status + 90 : 200,
  }));
  const gone = routeTo(`${downstream.url}/gone`, { name: "gone" });
  const dead = routeTo(`${downstream.url}/dead`, {
    name: "dead",
    to: { retry: { schedule: ["0s"] } },
  });
  const relay = await startRelayHere({
    settings: { tracking: { unknown: "forward" }, routes: [gone, dead] },
  });
  await postEvent(relay.webhookUrl, messages.event());
  expect((await postEvent(relay.webhookUrl, Buffer.from('{"no":"envelope"}'))).status).toBe(202);

  const { attention } = await shown(
    relay,
    "all three",
    (overview) => overview.attention.length === 3,
  );
  expect(attention).toMatchObject([
    { kind: "destination-stopped", subject: "gone", waiting: 1, action: "resume" },
    { kind: "dead-letters", subject: "dead", waiting: 1, action: "retry" },
    { kind: "quarantined", subject: null, waiting: 1, action: "release" },
  ]);
  expect((await overviewOf(relay)).figures.deadLetters.value).toBe(1);
  // They are stored: a restart neither ends them nor moves their beginning.
  await relay.stop();
  await relay.start();
  expect((await overviewOf(relay)).attention).toEqual(attention);

  status = 200;
  expect((await relay.ask("/v1/routes/gone/resume", { method: "POST" })).body).toMatchObject({
    resumed: true,
  });
  expect(
    kindsOf(await shown(relay, "it is resumed", (overview) => overview.attention.length === 2)),
  ).toEqual(["dead-letters dead", "quarantined null"]);
  const { body } = await relay.ask("/v1/replay", {
    method: "POST",
    body: { route: "dead", states: ["dead"] },
  });
  expect(body).toMatchObject({ replayed: 1 });
  await shown(
    relay,
    "it is replayed",
    (overview) => kindsOf(overview).join() === "quarantined null",
  );
});

test("does not guess the attempts in flight of another process", async () => {
  const settings = {
    ...(await storageOf("postgres")),
    routes: [routeTo("http://127.0.0.1:9/", { name: "crm" })],
  };
  const relay = await startRelayHere({ settings });
  await shown(
    relay,
    "it delivers the route",
    ({ destinations }) => destinations[0]?.inFlight === 0,
  );
  await startRelayHere({ role: "work", settings });
  await shown(
    relay,
    "the worker is known",
    ({ destinations }) => destinations[0]?.inFlight === null,
  );
});
