import Database from "better-sqlite3";
import { describe, expect, test } from "vitest";
import type { Wamid } from "../../../src/model/ids.ts";
import { auditOf } from "../../harness/ask-relay.ts";
import { openDownstream } from "../../harness/downstream.ts";
import { engines, storageOf } from "../../harness/engines.ts";
import { postEvent } from "../../harness/post-event.ts";
import { openSession } from "../../harness/postgres-session.ts";
import { createMessages } from "../../harness/posts.ts";
import { type RelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { routeTo, type SettingsParts } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";

const messages = createMessages("set-aside");

/** Writes metadata that the relay itself would not take into its store. It must be stopped. */
async function tamper(relay: RelayHere, settings: SettingsParts, wamid: Wamid, metadata: string): Promise<void> {
  const storage = settings["storage"] as { readonly url: string } | undefined;
  if (storage === undefined) {
    const db = new Database(relay.storePath);
    expect(db.prepare("UPDATE subjects SET metadata = ? WHERE name = ?").run(metadata, wamid).changes).toBe(1);
    db.close();
    return;
  }
  await using session = await openSession(storage.url);
  const changed = await session.rows("UPDATE relay.subjects SET metadata = $1 WHERE name = $2 RETURNING seq", [metadata, wamid]);
  expect(changed).toHaveLength(1);
}

const deep = `${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}`;
const good = '{"team":"support"}';

describe.each(engines)("on %s", (engine) => {
  async function setUp() {
    const downstream = await openDownstream();
    const settings = { ...(await storageOf(engine)), routes: [routeTo(downstream.url, { payload: "enriched" })] };
    const relay = await startRelayHere({ settings });
    const wamids = [messages.wamid(), messages.wamid(), messages.wamid()] as const;
    for (const wamid of wamids) {
      const body = { account: "main", wamid, metadata: { team: "support" } };
      expect(await relay.ask("/v1/messages/track", { method: "POST", body })).toMatchObject({ status: 200, body: { created: 1 } });
    }
    const post = async (wamid: Wamid, status: "sent" | "delivered" = "sent"): Promise<void> =>
      expect((await postEvent(relay.webhookUrl, messages.status(wamid, status))).word).toBe("accepted");
    const audit = async () => auditOf(relay);
    const event = async (seq: number) => (await relay.ask(`/v1/events/${seq}`)).body as { disposition: string; fault: string | null };
    const deliveries = async (state: string) =>
      ((await relay.ask(`/v1/deliveries?state=${state}`)).body as { data: { id: string; event: number; reason: string | null }[] }).data;
    const setAside = async (stage: string) => {
      const { body } = await relay.ask("/metrics");
      return Number(new RegExp(`^relay_set_aside_total\\{stage="${stage}"\\} (\\d+)$`, "m").exec(String(body))?.[1] ?? 0);
    };
    async function changed(wamid: Wamid, metadata: string): Promise<void> {
      await relay.stop();
      await tamper(relay, settings, wamid, metadata);
      await relay.start();
    }
    return { downstream, relay, wamids, post, audit, event, deliveries, setAside, changed };
  }

  test("a delivery that cannot be composed is a dead letter; the others go out, also after a restart; a retry sends it", async () => {
    const { downstream, relay, wamids, post, audit, deliveries, setAside, changed } = await setUp();
    await changed(wamids[1], deep);
    for (const wamid of wamids) await post(wamid);
    await until("the others are delivered", () => downstream.counts().taken === 2);
    await until("it is dead", async () => (await deliveries("dead")).length === 1);
    const [dead] = await deliveries("dead");
    expect(dead).toMatchObject({ event: 2, reason: expect.stringMatching(/^could not be composed: Maximum call stack/) });
    expect(await setAside("compose")).toBe(1);
    expect(relay.log()).toContainEqual(expect.objectContaining({ level: "error", stage: "compose", route: "everything" }));
    const fault = { fault: "stored metadata is nested more than 32 levels deep" };
    for (const path of [`/v1/explain/${wamids[1]}`, `/v1/messages/${wamids[1]}`, "/v1/messages"]) {
      const { status, body } = await relay.ask(path);
      expect([status, JSON.stringify(body)]).toEqual([200, expect.stringContaining(`"metadata":${JSON.stringify(fault)}`)]);
    }

    await relay.stop();
    await relay.start();
    for (const wamid of wamids) await post(wamid, "delivered");
    await until("the others are delivered again", () => downstream.counts().taken === 4);
    await until("the second one is dead, too", async () => (await deliveries("dead")).length === 2);
    expect(await audit()).toMatchObject({ balanced: true });
    expect((await relay.ask("/healthz")).status).toBe(200);

    await changed(wamids[1], good);
    for (const { id } of await deliveries("dead")) {
      expect((await relay.ask(`/v1/deliveries/${id}/retry`, { method: "POST" })).status).toBe(200);
    }
    await until("they are delivered", () => downstream.counts().taken === 6);
    expect(await audit()).toMatchObject({ balanced: true });
  });

  test("an event that cannot be planned is set aside; the others go out, also after a restart; a replay sends it", async () => {
    const { downstream, relay, wamids, post, audit, event, setAside, changed } = await setUp();
    await changed(wamids[1], "not JSON of +5491155550000");
    for (const wamid of wamids) await post(wamid);
    await until("the others are delivered", () => downstream.counts().taken === 2);
    expect(await event(2)).toMatchObject({ disposition: "filtered", fault: expect.stringMatching(/^could not be planned: /) });
    expect(await setAside("plan")).toBe(1);
    expect(relay.log()).toContainEqual(expect.objectContaining({ level: "error", stage: "plan", source: "main" }));
    expect(JSON.stringify(relay.log())).not.toContain("5491155550000");

    await relay.stop();
    await relay.start();
    await post(wamids[0], "delivered");
    await until("the next is delivered", () => downstream.counts().taken === 3);
    expect(await audit()).toMatchObject({ balanced: true });
    expect((await event(2)).fault).toContain("could not be planned");

    await changed(wamids[1], good);
    const replayed = await relay.ask("/v1/replay", { method: "POST", body: { disposition: "filtered" } });
    expect(replayed).toMatchObject({ status: 200, body: { replayed: 1 } });
    await until("it is delivered", () => downstream.counts().taken === 4);
    expect(await event(2)).toMatchObject({ disposition: "routed", fault: null });
    expect(await audit()).toMatchObject({ balanced: true });
  });
});

test("a result that the file refuses is a dead letter; the others are stored, also after a restart; a retry sends it again", async () => {
  const downstream = await openDownstream();
  const relay = await startRelayHere({ settings: { routes: [routeTo(downstream.url)] } });
  await relay.stop();
  const db = new Database(relay.storePath);
  db.exec(
    "CREATE TRIGGER refused BEFORE INSERT ON deliveries WHEN NEW.event = 2 AND NEW.response IS NOT NULL BEGIN SELECT RAISE(ABORT, 'refused'); END",
  );
  await relay.start();
  for (let n = 0; n < 3; n++) expect((await postEvent(relay.webhookUrl, messages.event())).word).toBe("accepted");
  const states = async () =>
    ((await relay.ask("/v1/deliveries")).body as { data: { id: string; event: number; state: string; reason: string | null }[] }).data;
  await until("all are settled", async () => (await states()).every(({ state }) => state === "delivered" || state === "dead"));
  expect(downstream.counts().taken).toBe(3);
  const [dead, ...more] = (await states()).filter(({ state }) => state === "dead");
  expect([dead, more]).toMatchObject([{ event: 2, reason: "delivered, which could not be stored: refused" }, []]);
  expect(String((await relay.ask("/metrics")).body)).toContain('relay_set_aside_total{stage="settle"} 1');
  expect(await auditOf(relay)).toMatchObject({ balanced: true });

  await relay.stop();
  db.exec("DROP TRIGGER refused");
  db.close();
  await relay.start();
  expect((await relay.ask(`/v1/deliveries/${dead?.id}/retry`, { method: "POST" })).status).toBe(200);
  await until("it is delivered again", () => downstream.arrivals.length === 4);
  await until("that is stored", async () => (await states()).every(({ state }) => state === "delivered"));
  expect(await auditOf(relay)).toMatchObject({ balanced: true });
});
