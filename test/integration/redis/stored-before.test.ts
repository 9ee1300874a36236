import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import type { RedisStore } from "../../../src/store/redis/open.ts";
import { checkSchema } from "../../../src/store/redis/schema.ts";
import { anEvent } from "../../contract/store-events.ts";
import { storesOnRedis } from "./store-tools.ts";

/** Made by versions that are no more: none can be made anew, and none is to be changed. */
const folder = new URL("../../fixtures/stored/", import.meta.url);
const versions = readdirSync(folder).map((file) => Number(/^redis-(\d+)\.json$/.exec(file)?.[1]));

/** A prefix that was written by an earlier version, at this commit: the commands that make it, bytes as latin1, and what it said of it. */
interface Written {
  readonly commit: string;
  readonly stats: Record<string, unknown>;
  readonly commands: readonly (readonly [command: string, key: string, ...words: string[]])[];
}

const routes = [
  { name: "all" },
  { name: "mine", match: { tracked: true } },
  { name: "slow" },
  { name: "dead", match: { statuses: ["failed"] } },
  { name: "gone", match: { events: ["automation.*"] } },
];
const { storeOf, client } = storesOnRedis(routes);

/** An hour and more after it was written: retries are due. */
const later = Date.parse("2026-11-22T14:30:00Z");

async function writtenBefore(version: number): Promise<{ written: Written; store: RedisStore; prefix: string }> {
  const prefix = `stored-${version}`;
  const written = JSON.parse(readFileSync(new URL(`redis-${version}.json`, folder), "utf8")) as Written;
  const bytes = (word: string) => Buffer.from(word, "latin1");
  for (const [command, key, ...words] of written.commands) {
    await client().call(command, Buffer.concat([bytes(`{${prefix}}:`), bytes(key)]), ...words.map(bytes));
  }
  return { written, store: storeOf(prefix), prefix };
}

const audit = (store: RedisStore) => store.inspecting.audit({ now: later, isRunning: false, mostOffenders: 100 }, () => {});

/** Sends all that is due on a route, as a worker does; gives the events in the order in which they went out. */
async function deliverAll(store: RedisStore, route: string): Promise<number[]> {
  const sent: number[] = [];
  for (;;) {
    const { deliveries } = await store.claim(route, { now: later, limit: 100, maxBytes: 1e6, leaseMs: 60_000, holder: "worker" });
    if (deliveries.length === 0) return sent;
    for (const { event, attempts } of deliveries) {
      sent.push(event);
      const result = { kind: "answered", status: 200, retryAfterMs: null } as const;
      const attempt = { number: attempts + 1, at: later, tookMs: 1, result, response: null };
      await store.settle({ route, event, attempt, settled: { to: "delivered" }, at: later }, "worker");
    }
  }
}

test.each(versions)("what version %i has stored goes on as it was", async (version) => {
  const { written, store, prefix } = await writtenBefore(version);
  const [marked, name] = ((await client().get(`{${prefix}}:schema`)) ?? "").split(" ");
  expect(marked).toBe(String(version));
  expect(await checkSchema(client(), prefix)).toBe(name);

  expect(await store.inspecting.stats()).toMatchObject(written.stats);
  expect(await audit(store)).toMatchObject({ balanced: true, offenders: [] });
  for (;;) if ((await store.planning.planSome(later)).left === "none") break;

  const events = (await store.read.events.list({ limit: 100 })).events.toReversed();
  expect(events.slice(0, 12).map(({ disposition }) => disposition)).toEqual([...Array(10).fill("forwarded"), "quarantined", "quarantined"]);
  for (const { id } of events) {
    if (id === null) continue;
    expect(await store.accept(anEvent({ id, wamid: "wamid.A" }))).toMatchObject({ result: "duplicate" });
  }
  expect(await store.read.messages.find("order 1")).toMatchObject([
    { wamid: "wamid.A", status: "read", reference: "order 1", metadata: { team: "north" } },
  ]);
  expect(await store.read.messages.find('wamid.ñ\\"')).toMatchObject([{ status: "failed", errorCode: "131026", reference: "order 2" }]);
  expect((await store.read.messages.find("wamid.A"))[0]).toMatchObject({ registeredAt: expect.any(Number) });
  const key = { account: "main", kind: "message", key: "key-1" } as const;
  expect(await store.findSend(key)).toMatchObject({ state: "done", answer: { idempotencyKey: "key-1" } });

  // What was parked is released, what waits and is held goes out in order, with what came now behind it.
  await store.register([{ account: "main", wamid: "wamid.B" }], later);
  const added = await store.accept(anEvent({ wamid: "wamid.A", status: "delivered", receivedAt: later }));
  if (added.result !== "accepted") throw new Error(added.result);
  expect(await store.retry(4, "dead", later)).not.toBeNull();
  expect(await store.resume("gone")).toBe(true);
  const sent = new Map<string, number[]>();
  for (const { name: route } of routes) sent.set(route, await deliverAll(store, route));
  const ofA = [1, 2, 3, 7, ...(version > 1 ? [15] : []), added.seq];
  expect(sent.get("slow")?.filter((seq) => ofA.includes(seq))).toEqual(ofA);
  expect(sent.get("slow")?.filter((seq) => seq === 5 || seq === 6)).toEqual([5, 6]);
  expect(sent.get("mine")?.filter((seq) => seq === 5 || seq === 6)).toEqual([5, 6]);
  expect([sent.get("dead"), sent.get("gone")]).toEqual([[4], [9]]);
  expect(await store.expireParked(later, 100), "events 8 and 9, and those planned only now, of nobody's messages").toBe(
    version > 1 ? 4 : 2,
  );
  expect((await store.inspecting.stats()).deliveries).toMatchObject({ waiting: 0, held: 0, dead: 0 });
  expect(await audit(store)).toMatchObject({ balanced: true, offenders: [] });
});
