// @module-tag slow: it posts 2,000 copies over 50 connections.
import { expect, test } from "vitest";
import type { Arrival } from "../../src/sandbox/downstream.ts";
import { bodyOf, type SandboxEvent } from "../../src/sandbox/events/publisher.ts";
import { createJudge, type Post } from "../../src/sandbox/traffic/answers.ts";
import { openDownstream } from "../harness/downstream.ts";
import { createMessages, postOf } from "../harness/posts.ts";
import { startRelayHere } from "../harness/relay-here.ts";
import { routeTo } from "../harness/relay-settings.ts";
import { openSender } from "../harness/sender.ts";
import { rowsOf } from "../harness/store-rows.ts";
import { until } from "../harness/until.ts";

const connections = 50;
const paths = ["/one", "/two"];

/**
 * Each event as many times as there are connections, one after the other: all copies are under way
 * at once. Half have other bytes.
 */
function* copies(events: readonly SandboxEvent[]): Generator<Post> {
  for (const event of events) {
    const resent = bodyOf({ ...event, data: { ...event.data, resent: true } });
    for (let copy = 0; copy < connections; copy += 1)
      yield postOf(event, copy % 2 === 0 ? bodyOf(event) : resent);
  }
}

const idsAt = (arrivals: readonly Arrival[], path: string) =>
  arrivals.filter((arrival) => arrival.path === path).map(({ deliveryId }) => deliveryId);

test("50 concurrent posts of an event on 50 connections are one event and one delivery per route", async () => {
  const downstream = await openDownstream({ keepBodies: false });
  const routes = paths.map((path) => routeTo(`${downstream.url}${path}`, { name: path.slice(1) }));
  const relay = await startRelayHere({ settings: { routes, log: { level: "warn" } } });
  const messages = createMessages("duplicates");
  const events = Array.from({ length: 40 }, messages.event);
  const sender = openSender(relay, { concurrency: connections });
  const judge = createJudge("relay");
  const faults: (string | null)[] = [];
  const summary = await sender.run(copies(events), {
    onResult: (post, result) => faults.push(judge.note(post, result)),
  });
  expect(summary).toMatchObject({
    posts: 40 * connections,
    accepted: 40,
    duplicate: 40 * (connections - 1),
  });
  expect([...faults.filter((fault) => fault !== null), ...judge.ended()]).toEqual([]);

  await until("every delivery is made", () => downstream.counts().taken === 80);
  const stored = rowsOf(
    relay.storePath,
    "SELECT count(*) AS n, count(DISTINCT id) AS ids FROM events",
  );
  const planned = "SELECT route FROM queue UNION ALL SELECT route FROM deliveries";
  const perRoute = rowsOf(relay.storePath, `SELECT count(*) AS n FROM (${planned}) GROUP BY route`);
  expect([stored, perRoute]).toEqual([[{ n: 40, ids: 40 }], [{ n: 40 }, { n: 40 }]]);
  const counted = rowsOf<{ n: number; conflicts: number }>(
    relay.storePath,
    "SELECT sum(duplicates) AS n, sum(conflicts) AS conflicts FROM events",
  );
  // Half of the copies have the bytes that came first, whichever these are.
  expect(counted).toEqual([{ n: 40 * (connections - 1), conflicts: 40 * 25 }]);
  const warned = () =>
    relay.log().filter((line) => String(line["msg"]).includes("other bytes")).length;
  // The log leaves the relay a moment after the answers.
  await until("each conflict is logged", () => warned() >= 40 * 25);
  expect(warned()).toBe(40 * 25);
  for (const path of paths) {
    const ids = idsAt(downstream.arrivals, path);
    expect(new Set(ids).size).toBe(40);
    // Nothing failed and nobody crashed, so at least once is exactly once.
    expect(ids.length).toBe(40);
  }

  // The pipe is alive: something new still gets through.
  expect(await sender.post(postOf(messages.event()))).toMatchObject({ answer: "accepted" });
  await until("the new one is delivered", () => downstream.counts().taken === 82);
});
