import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { EventId } from "../../../src/model/ids.ts";
import { statsOf } from "../../harness/ask-relay.ts";
import { openDownstream } from "../../harness/downstream.ts";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { makeRelayHere, type RelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { relayToken, routeTo, settingsOf } from "../../harness/relay-settings.ts";
import { rowsOf } from "../../harness/store-rows.ts";
import { until } from "../../harness/until.ts";
import { freePort } from "../../setup/free-port.ts";
import { jsonOf, runOn, runProcessOn, runRemote } from "./run-cli.ts";

const once = { to: { retry: { schedule: ["0s"] } } };

async function deadIds(relay: RelayHere): Promise<string[]> {
  const listed = await runOn(relay, "deliveries", "list", "--state", "dead", "--json");
  return jsonOf<{ data: { id: string }[] }>(listed).data.map(({ id }) => id);
}

/** A relay whose downstream has refused `events` for good. */
async function withDeadLetters(events: number, id?: EventId) {
  const downstream = await openDownstream();
  downstream.fail({ status: 422 });
  const relay = await startRelayHere({ settings: { routes: [routeTo(downstream.url, once)] } });
  const messages = createMessages("dead letters");
  for (let each = 0; each < events; each++)
    await postEvent(relay.webhookUrl, { ...messages.event(), ...(id && { id }) });
  await until("all are dead", async () => (await statsOf(relay)).deliveries.dead === events);
  return { downstream, relay };
}

test("retries the known deliveries under their old ids, names the unknown one, and exits with 1", async () => {
  const { downstream, relay } = await withDeadLetters(1);
  const [id = ""] = await deadIds(relay);
  downstream.recover();
  const err =
    'wamid-relay: dlv_nothing: no such delivery; "wamid-relay deliveries list" lists the ids\n';
  expect(await runProcessOn(relay, "retry", "dlv_nothing", id)).toEqual({
    code: 1,
    out: `${id}  dead → waiting\n`,
    err,
  });
  await until("delivered", async () => (await statsOf(relay)).deliveries.delivered === 1);
  expect(downstream.arrivals.map(({ deliveryId, answered }) => [deliveryId, answered])).toEqual([
    [id, 422],
    [id, 200],
  ]);
});

test("the longest ids fit into the paths of the API", async () => {
  const { relay } = await withDeadLetters(1, "ñ/?".repeat(85) as EventId);
  const [event] = jsonOf<{ data: [{ id: string }] }>(
    await runRemote(relay, "events", "list", "--json", "--show-pii"),
  ).data;
  const shown = jsonOf<{ id: string; deliveries: [{ id: string }] }>(
    await runRemote(relay, "events", "show", event.id, "--json", "--show-pii"),
  );
  expect(shown.id).toBe("ñ/?".repeat(85));
  const retried = await runRemote(relay, "retry", shown.deliveries[0].id);
  expect(retried).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^delivery:[0-9a-f]{12}_[0-9a-f]{12} {2}dead → waiting\n$/),
  });
  const [masked = ""] = retried.out.split(" ");
  expect((await runRemote(relay, "retry", masked)).out).toContain(`${masked}  `);
});

test("retry and replay write into the file of a stopped relay, which sends at the next start", async () => {
  const { downstream, relay } = await withDeadLetters(3);
  const [id = ""] = await deadIds(relay);
  await relay.stop();
  downstream.recover();
  const err = "note: no relay answered; deliveries go out while one runs\n";
  expect(await runOn(relay, "retry", id)).toMatchObject({ code: 0, err });
  expect(await runOn(relay, "replay", "--dry-run")).toMatchObject({ code: 0, err: "" });
  const replay = await runOn(relay, "replay", "--json");
  // A slow machine shows progress.
  expect(replay.err.replaceAll(/^\d+% .*\n/gm, "")).toBe(err);
  expect(jsonOf<{ matching: number; replayed: number }>(replay)).toMatchObject({
    matching: 2,
    replayed: 2,
  });
  expect(downstream.counts().taken).toBe(0);
  await relay.start();
  await until("all delivered", async () => (await statsOf(relay)).deliveries.delivered === 3);
});

test("replay counts first, takes what matches, and delivered deliveries only on request", async () => {
  const { downstream, relay } = await withDeadLetters(3);
  expect((await runProcessOn(relay, "replay", "--dry-run")).out).toBe(
    "3 deliveries match:\n  everything: 3\n",
  );
  expect((await runOn(relay, "replay", "--dry-run", "--error-code", "1")).out).toBe(
    "0 deliveries match\n",
  );
  expect((await runOn(relay, "replay", "--to", "2026-01-01")).out).toBe("0 deliveries match\n");
  expect((await statsOf(relay)).deliveries.dead).toBe(3);
  downstream.recover();
  expect((await runRemote(relay, "replay")).out).toBe("3 of 3 deliveries go out again\n");
  await until("all delivered", async () => (await statsOf(relay)).deliveries.delivered === 3);

  const refused = await runOn(relay, "replay", "--state", "delivered");
  expect([refused.code, refused.out]).toEqual([1, ""]);
  expect(refused.err).toBe(
    "wamid-relay: 3 deliveries, delivered ones among them, would go out again; add --yes to do it\n",
  );
  expect((await runOn(relay, "replay", "--state", "delivered", "--yes", "--json")).code).toBe(0);
  await until("delivered once more", () => downstream.counts().duplicates === 3);
});

test("replay and retry reject a route that is not in the settings", async () => {
  const { relay } = await withDeadLetters(1);
  const [id = ""] = await deadIds(relay);
  await relay.stop();
  relay.writeSettings({ routes: [] });
  await relay.start();
  const unknown = await runOn(relay, "replay", "--route", "everything");
  expect(unknown).toEqual({
    code: 1,
    out: "",
    err: 'wamid-relay: unknown route "everything" (there are no routes)\n',
  });
  const all = await runOn(relay, "replay");
  expect(all.out).toBe("0 deliveries match\n");
  expect(all.err).toBe(
    "warning: 1 delivery of everything not sent: the route is not in the settings\n",
  );
  expect((await runOn(relay, "retry", id)).err).toContain(
    'its route "everything" is not in the settings',
  );
  expect((await statsOf(relay)).deliveries.dead).toBe(1);
});

test("a destination stopped by 410 continues after resume", async () => {
  const downstream = await openDownstream();
  downstream.fail({ status: 410 });
  const relay = await startRelayHere({ settings: { routes: [routeTo(downstream.url)] } });
  await postEvent(relay.webhookUrl, createMessages("gone").event());
  await until(
    "it is stopped",
    () => rowsOf(relay.storePath, "SELECT 1 FROM state WHERE key LIKE 'stop/%'").length === 1,
  );
  downstream.recover();
  const [{ id }] = jsonOf<{ data: [{ id: string }] }>(
    await runOn(relay, "deliveries", "list", "--json"),
  ).data;
  expect((await runOn(relay, "retry", id)).out).toContain(
    "start it with: wamid-relay resume everything",
  );
  expect(await runProcessOn(relay, "resume", "everything")).toEqual({
    code: 0,
    out: "everything: started again\n",
    err: "",
  });
  await until("delivered", async () => (await statsOf(relay)).deliveries.delivered === 1);
  const unknown = await runOn(relay, "resume", "nothing");
  expect(unknown).toEqual({
    code: 1,
    out: "",
    err: 'wamid-relay: unknown route "nothing" (there are: everything)\n',
  });
});

test("track registers a message and releases its parked events", async () => {
  const downstream = await openDownstream();
  const relay = await startRelayHere({
    settings: {
      routes: [routeTo(downstream.url, { match: { tracked: true }, payload: "enriched" })],
    },
  });
  const messages = createMessages("track");
  const wamid = messages.wamid();
  await postEvent(relay.webhookUrl, messages.status(wamid, "sent"));
  const args = [
    "track",
    "--account",
    "main",
    "--wamid",
    wamid,
    "--reference",
    "order-1",
    "--metadata",
    "a=b=c",
  ];
  expect(await runProcessOn(relay, ...args)).toEqual({ code: 0, out: "registered\n", err: "" });
  const arrived = await until("it arrives", () => downstream.arrivals[0]);
  const body = JSON.parse((arrived.body ?? Buffer.alloc(0)).toString("utf8")) as {
    relay: { message: unknown };
  };
  expect(body.relay.message).toMatchObject({ reference: "order-1", metadata: { a: "b=c" } });
  expect(jsonOf(await runOn(relay, ...args, "--json"))).toEqual({ created: 0, known: 1 });
  const other = await runOn(
    relay,
    "track",
    "--account",
    "main",
    "--wamid",
    wamid,
    "--reference",
    "order-2",
  );
  const err =
    'wamid-relay: this wamid is registered with another reference ("order-1", not "order-2")\n';
  expect(other).toEqual({ code: 1, out: "", err });
  const nobody = await runOn(relay, "track", "--account", "nobody", "--wamid", wamid);
  expect(nobody).toEqual({
    code: 1,
    out: "",
    err: 'wamid-relay: unknown account "nobody" (there are: main)\n',
  });
});

test("prints one line when no token may replay, or the relay has other tokens", async () => {
  const { relay } = await withDeadLetters(1);
  const settings = (token: string, scopes: string[], accounts?: string[]) => ({
    routes: [routeTo("http://127.0.0.1:1/")],
    control: { tokens: [{ name: "harness", token, scopes, accounts }] },
  });
  // With a token limited to accounts, a part would look as if it were all.
  for (const parts of [
    settings(relayToken, ["read"]),
    settings(relayToken, ["replay"], ["main"]),
  ]) {
    relay.writeSettings(parts);
    const without = await runOn(relay, "replay", "--dry-run");
    expect([without.code, without.out]).toEqual([1, ""]);
    expect(without.err).toMatch(
      /^wamid-relay: no token in \S+ has the scope replay for all accounts \(control\.tokens\); add one, or use --relay http:\S+ with --token-env\n$/,
    );
  }
  relay.writeSettings(settings("too-short", ["replay"]));
  const short = await runOn(relay, "replay", "--dry-run");
  expect(short.err).toMatch(
    /^wamid-relay: this command cannot read the token .*control\.tokens\[0\]\.token: is shorter than 16 /,
  );
  expect(short.err).not.toContain("too-short");
  relay.writeSettings(settings("another-token-of-others", ["replay"]));
  const other = await runOn(relay, "replay", "--dry-run");
  expect(other).toEqual({
    code: 1,
    out: "",
    err: expect.stringMatching(
      /^wamid-relay: the relay refuses the token \(unknown token\): .*SIGHUP.*\n$/,
    ),
  });
});

test("reports that an unreachable relay holds the file, and writes nothing", async () => {
  const { relay } = await withDeadLetters(1);
  const elsewhere = join(relay.folder, "elsewhere.yaml");
  const places = { port: await freePort(), storePath: relay.storePath };
  writeFileSync(
    elsewhere,
    JSON.stringify(settingsOf(places, { routes: [routeTo("http://127.0.0.1:1/")] })),
  );
  const { code, out, err } = await runOn({ settingsPath: elsewhere }, "replay");
  expect([code, out]).toEqual([1, ""]);
  expect(err).toMatch(
    /is in use by another wamid-relay process \(process \d+ on .*nothing answers at \S+: wait for its end if it is a command, or give the relay's address with --relay\n$/,
  );
  expect((await statsOf(relay)).deliveries.dead).toBe(1);
});

test("reports another server on the relay's port, and does not send it the token", async () => {
  const { relay, downstream } = await withDeadLetters(1);
  const { length } = downstream.arrivals;
  relay.writeSettings({ server: { port: Number(new URL(downstream.url).port) } });
  const held = /is in use by another wamid-relay process .*; /;
  const wait = "wait for its end if it is a command, or ";
  for (const [args, begin, first] of [
    [["replay"], held, wait],
    [["events", "list"], held, wait],
    [["reload"], /^wamid-relay: /, ""],
  ] as const) {
    const { code, out, err } = await runOn(relay, ...args);
    expect([code, out]).toEqual([1, ""]);
    expect(err).toMatch(
      new RegExp(
        `${begin.source}what listens at \\S+ is no wamid-relay: ${first}give the relay's address with --relay\n$`,
      ),
    );
  }
  expect(downstream.arrivals.slice(length).map(({ path }) => path)).toEqual([
    "/healthz",
    "/healthz",
    "/healthz",
  ]);
});

test("uses the store of the settings, not another relay that answers at their address", async () => {
  const { relay } = await withDeadLetters(1);
  await relay.stop();
  const other = await startRelayHere();
  relay.writeSettings({ server: { port: other.port } });
  expect(await deadIds(relay)).toHaveLength(1);
  expect(jsonOf(await runOn(relay, "replay", "--dry-run", "--json"))).toMatchObject({
    notSent: [{ matching: 1 }],
  });
});

test("a writing command creates no store", async () => {
  const relay = await makeRelayHere();
  const { code, out, err } = await runOn(relay, "track", "--account", "main", "--wamid", "wamid.x");
  expect([code, out]).toEqual([1, ""]);
  expect(err).toMatch(
    /^wamid-relay: there is no store at \S+ yet; "wamid-relay serve" makes it\n$/,
  );
});

test("while there is no store, a relay on the port of the settings gets no token", async () => {
  const other = await startRelayHere();
  const relay = await makeRelayHere();
  const tokens = [{ name: "mine", token: "a-token-of-mine-alone", scopes: ["read"] }];
  relay.writeSettings({ server: { port: other.port }, control: { tokens } });
  const { code, err } = await runOn(relay, "events", "list");
  expect([code, err]).toEqual([1, expect.stringContaining("there is no store at")]);
  expect(other.log().filter(({ msg }) => msg === "bad token")).toEqual([]);
});
