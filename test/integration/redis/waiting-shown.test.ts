import { expect, test } from "vitest";
import { openDownstream } from "../../harness/downstream.ts";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { redisForTest } from "../../harness/redis-states.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { jsonOf, runRemote } from "../cli/run-cli.ts";

const messages = createMessages("shown while it waits");

/** The numbers of a page of metrics, by name with labels. */
async function metricsOf(relay: { ask(path: string): Promise<{ body: unknown }> }): Promise<ReadonlyMap<string, number>> {
  const lines = String((await relay.ask("/metrics")).body).matchAll(/^(relay_\S+) (\S+)$/gm);
  return new Map([...lines].map(([, name = "", value]) => [name, Number(value)]));
}

test("shows an unplanned event as accepted everywhere, and its result once it is planned", async () => {
  const redis = await redisForTest();
  const downstream = await openDownstream();
  const settings = {
    storage: { driver: "redis", url: redis.url, commandTimeout: "30s" },
    tracking: { unknown: "forward" },
    routes: [routeTo(downstream.url)],
  };
  const receiver = await startRelayHere({ role: "receive", settings });
  const event = messages.status(messages.wamid(), "sent");
  expect((await postEvent(receiver.webhookUrl, event)).word).toBe("accepted");

  expect((await receiver.ask("/v1/stats")).body).toMatchObject({ dispositions: { accepted: 1, routed: 0 } });
  const waiting = await metricsOf(receiver);
  expect(waiting.get("relay_unplanned_events")).toBe(1);
  const seconds = waiting.get("relay_unplanned_oldest_seconds") ?? -1;
  expect(seconds).toBeGreaterThanOrEqual(0);
  expect(seconds).toBeLessThan(60);
  await until("it grows", async () => ((await metricsOf(receiver)).get("relay_unplanned_oldest_seconds") ?? -1) > seconds);

  const listed = async (word: string) =>
    jsonOf<{ data: { seq: number }[] }>(await runRemote(receiver, "events", "list", "--disposition", word, "--json")).data;
  expect(await listed("accepted")).toMatchObject([{ seq: 1, id: event.id }]);
  const explained = (await runRemote(receiver, "explain", event.id)).out;
  expect(explained).toMatch(/^event \S+, about message wamid\S*, not tracked yet$/m);
  expect(explained).toMatch(/^ +status +sent; tracked once it is planned$/m);
  expect(explained).toMatch(
    /^ +disposition +accepted; waits for a process with role work \(or both\) to plan it, since \S+ \S+, and is next$/m,
  );
  const shown = (await runRemote(receiver, "events", "show", event.id)).out;
  expect(shown).toMatch(/^ +disposition +accepted\n +waits for +a process with role work \(or both\) to plan it$/m);
  expect(shown).toMatch(/^ +not planned yet$/m);
  const audited = await runRemote(receiver, "audit");
  expect([audited.code, audited.out]).toEqual([0, expect.stringContaining("1 events are accepted and wait for a process with role work")]);

  const worker = await startRelayHere({ role: "work", settings });
  await until("it is delivered", () => downstream.counts().taken === 1);
  await until("it is settled", async () => (await listed("routed")).length === 1);
  expect(await listed("accepted")).toEqual([]);
  for (const relay of [receiver, worker]) {
    const after = await metricsOf(relay);
    expect([after.get("relay_unplanned_events"), after.get("relay_unplanned_oldest_seconds")]).toEqual([0, 0]);
  }
  // Counted once, by the process that planned it.
  const counted = 'relay_events_total{source="main",disposition="routed"}';
  expect([(await metricsOf(receiver)).get(counted), (await metricsOf(worker)).get(counted)]).toEqual([undefined, 1]);
  expect((await runRemote(receiver, "explain", event.id)).out).toMatch(/^ +disposition +routed$/m);
  expect((await runRemote(receiver, "events", "show", event.id)).out).not.toContain("waits for");
  expect((await runRemote(receiver, "audit")).out).not.toContain("are accepted and wait");
});
