// @module-tag slow: it starts and stops real processes under load.
import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { openDownstream } from "../harness/downstream.ts";
import { postEvent } from "../harness/post-event.ts";
import { createMessages, postOf } from "../harness/posts.ts";
import { startRelay } from "../harness/relay-process.ts";
import { routeTo } from "../harness/relay-settings.ts";
import { openSender } from "../harness/sender.ts";
import { rowsOf } from "../harness/store-rows.ts";
import { until } from "../harness/until.ts";
import { startHttp } from "../integration/url-destination/downstream.ts";

/** A downstream whose answers the test gives by hand. */
async function openHandDownstream() {
  const open: ServerResponse[] = [];
  const { url } = await startHttp((_request, response) => void open.push(response));
  return { url, open };
}

test("repeated stops and starts under load lose nothing and accept nothing twice: SIGTERM answers or rejects every request", async () => {
  const downstream = await openDownstream({ keepBodies: false });
  const relay = await startRelay({
    settings: { routes: [routeTo(downstream.url)], log: { level: "warn" } },
  });
  const messages = createMessages("sigterm");
  function* posts() {
    for (;;) yield postOf(messages.event());
  }
  let accepted = 0;
  for (let round = 1; round <= 3; round += 1) {
    // One try only: what a connection loses shows as unanswered.
    const sender = openSender(relay, { concurrency: 32, retry: { tries: 1, waitMs: 0 } });
    const before = accepted;
    let refusedConnections = 0;
    const lost: string[] = [];
    const over = new AbortController();
    const sending = sender.run(posts(), {
      signal: over.signal,
      onResult(_post, result) {
        if (result.kind === "answered" && result.answer === "accepted") accepted += 1;
        else if (result.kind === "unanswered" && result.error === "ECONNREFUSED")
          refusedConnections += 1;
        else if (result.kind !== "answered" || result.status !== 503)
          lost.push(JSON.stringify(result));
      },
    });
    await until("the load is on", () => accepted > before + 300);
    expect(await relay.stop()).toEqual({ code: 0, signal: null });
    await until("new connections are refused", () => refusedConnections > 0);
    over.abort();
    await sending;
    // A keep-alive connection may be closed just as the next request sets out on it: that is no
    // answer lost to an accepted event.
    expect(rowsOf(relay.storePath, "SELECT count(*) AS n FROM events")).toEqual([{ n: accepted }]);
    expect(lost.filter((result) => !/UND_ERR_SOCKET|ECONNRESET|EPIPE/.test(result))).toEqual([]);
    await relay.start();
  }
  await until("the rest is delivered", () => downstream.counts().taken === accepted);
  expect(downstream.counts()).toMatchObject({ duplicates: 0, failed: 0 });
});

test("returns hanging attempts at the deadline without counting them, and sends them after the next start", async () => {
  const downstream = await openDownstream();
  downstream.fail("hang");
  const relay = await startRelay({
    settings: {
      server: { shutdownTimeout: "1s" },
      routes: [routeTo(downstream.url, { to: { concurrency: 4, timeout: "2m" } })],
    },
  });
  const messages = createMessages("hand back");
  const wamid = messages.wamid();
  const events = [
    messages.status(wamid, "sent"),
    messages.status(wamid, "read"),
    ...Array.from({ length: 8 }, messages.event),
  ];
  for (const event of events) await postEvent(relay.webhookUrl, event);
  await until("four attempts hang", () => downstream.counts().arrivals === 4);
  expect(await relay.stop()).toEqual({ code: 0, signal: null });
  expect(rowsOf(relay.storePath, "SELECT 1 FROM attempts")).toEqual([]);
  expect(
    rowsOf(
      relay.storePath,
      "SELECT sum(attempts) AS attempts, sum(spent) AS spent, sum(state) AS states, count(*) AS n FROM queue",
    ),
  ).toEqual([{ attempts: 0, spent: 0, states: 1, n: 10 }]);
  downstream.recover();
  await relay.start();
  await until("all are delivered", () => downstream.counts().taken === 10);
  const ofMessage = downstream.arrivals
    .filter((arrival) => arrival.wamid === wamid && arrival.answered === 200)
    .map(({ eventId }) => eventId);
  expect(ofMessage).toEqual([events[0]?.id, events[1]?.id]);
});

test("exits at once on a second signal", async () => {
  const { url, open } = await openHandDownstream();
  const relay = await startRelay({
    settings: {
      server: { shutdownTimeout: "2m" },
      routes: [routeTo(url, { to: { timeout: "2m" } })],
    },
  });
  await postEvent(relay.webhookUrl, createMessages("second signal").event());
  await until("an attempt hangs", () => open.length === 1);
  relay.signal("SIGTERM");
  await until("it is stopping", () => relay.log().some(({ msg }) => msg === "stopping"));
  // One that follows on the heels of the first is the same signal, passed on twice by npm.
  await until("it ends", () => {
    relay.signal("SIGTERM");
    return !relay.isRunning();
  });
  expect(await relay.ended()).toEqual({ code: 1, signal: null });
});
