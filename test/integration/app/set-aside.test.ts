import Database from "better-sqlite3";
import { expect, test } from "vitest";
import type { Wamid } from "../../../src/model/ids.ts";
import { auditOf } from "../../harness/ask-relay.ts";
import { openDownstream } from "../../harness/downstream.ts";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";

const deep = `${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}`;
const good = '{"team":"support"}';

test("a delivery that cannot be composed is a dead letter, and an event that cannot be planned is set aside; the others go out, also after a restart; a retry and a replay send them", async () => {
  const downstream = await openDownstream();
  const relay = await startRelayHere({
    settings: { routes: [routeTo(downstream.url, { payload: "enriched" })] },
  });
  const messages = createMessages("set-aside");
  const [sound, composing, planning] = [messages.wamid(), messages.wamid(), messages.wamid()];
  for (const wamid of [sound, composing, planning]) {
    const body = { account: "main", wamid, metadata: { team: "support" } };
    expect(await relay.ask("/v1/messages/track", { method: "POST", body })).toMatchObject({
      status: 200,
      body: { created: 1 },
    });
  }
  const post = async (wamid: Wamid, status: "sent" | "delivered" = "sent") =>
    expect((await postEvent(relay.webhookUrl, messages.status(wamid, status))).word).toBe(
      "accepted",
    );
  const event = async (seq: number) => (await relay.ask(`/v1/events/${seq}`)).body;
  const dead = async () =>
    (
      (await relay.ask("/v1/deliveries?state=dead")).body as {
        data: { id: string; event: number }[];
      }
    ).data;
  /** Restarts it with metadata that the relay itself would not take into its store. */
  async function restartWith(metadata: Readonly<Record<Wamid, string>>): Promise<void> {
    await relay.stop();
    const db = new Database(relay.storePath);
    for (const [wamid, text] of Object.entries(metadata))
      expect(
        db.prepare("UPDATE subjects SET metadata = ? WHERE name = ?").run(text, wamid).changes,
      ).toBe(1);
    db.close();
    await relay.start();
  }

  await restartWith({ [composing]: deep, [planning]: "not JSON of +5491155550000" });
  for (const wamid of [sound, composing, planning, sound]) await post(wamid);
  await until("the others are delivered", () => downstream.counts().taken === 2);
  await until("one is dead", async () => (await dead()).length === 1);
  expect(await dead()).toMatchObject([
    { event: 2, reason: expect.stringMatching(/^could not be composed: Maximum call stack/) },
  ]);
  expect(await event(3)).toMatchObject({
    disposition: "filtered",
    fault: expect.stringMatching(/^could not be planned: /),
  });
  const metrics = String((await relay.ask("/metrics")).body);
  for (const stage of ["compose", "plan"])
    expect(metrics).toContain(`relay_set_aside_total{stage="${stage}"} 1\n`);
  expect(relay.log()).toContainEqual(
    expect.objectContaining({ level: "error", stage: "compose", route: "everything" }),
  );
  expect(relay.log()).toContainEqual(
    expect.objectContaining({ level: "error", stage: "plan", source: "main" }),
  );
  expect(JSON.stringify(relay.log())).not.toContain("5491155550000");
  const fault = { fault: "stored metadata is nested more than 32 levels deep" };
  for (const path of [`/v1/explain/${composing}`, `/v1/messages/${composing}`]) {
    const { status, body } = await relay.ask(path);
    expect([status, JSON.stringify(body)]).toEqual([
      200,
      expect.stringContaining(`"metadata":${JSON.stringify(fault)}`),
    ]);
  }

  await restartWith({});
  for (const wamid of [composing, sound]) await post(wamid, "delivered");
  await until("the next is delivered", () => downstream.counts().taken === 3);
  await until("the second one is dead, too", async () => (await dead()).length === 2);
  expect(await auditOf(relay)).toMatchObject({ balanced: true });

  await restartWith({ [composing]: good, [planning]: good });
  for (const { id } of await dead())
    expect((await relay.ask(`/v1/deliveries/${id}/retry`, { method: "POST" })).status).toBe(200);
  const replayed = await relay.ask("/v1/replay", {
    method: "POST",
    body: { disposition: "filtered" },
  });
  expect(replayed).toMatchObject({ status: 200, body: { replayed: 1 } });
  await until("they are delivered", () => downstream.counts().taken === 6);
  expect(await event(3)).toMatchObject({ disposition: "routed", fault: null });
  expect(await auditOf(relay)).toMatchObject({ balanced: true });
});
