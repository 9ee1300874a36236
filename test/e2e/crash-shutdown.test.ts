// Slow: it starts and stops real processes under load.
import { createHmac } from "node:crypto";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { connect } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { bodyOf } from "../../src/sandbox/events/event-maker.ts";
import { openDownstream } from "../harness/downstream.ts";
import { postEvent } from "../harness/post-event.ts";
import { createMessages, postOf } from "../harness/posts.ts";
import { startRelay } from "../harness/relay-process.ts";
import { routeTo, webhookSecret } from "../harness/relay-settings.ts";
import { openSender, untilItIsBack } from "../harness/sender.ts";
import { rowsOf } from "../harness/store-rows.ts";
import { until } from "../harness/until.ts";

const countsOf = (storePath: string, table: "queue" | "deliveries") =>
  rowsOf(storePath, `SELECT state, count(*) AS n, sum(attempts) AS attempts FROM ${table} GROUP BY state ORDER BY state`);

/** A downstream whose answers the test gives by hand. */
async function openHandDownstream() {
  const open: ServerResponse[] = [];
  const server = createServer((request, response) => {
    request.resume().once("end", () => open.push(response));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, open };
}

test("SIGTERM under load answers or rejects every request, exits with 0, and the next start delivers the rest", async () => {
  const downstream = await openDownstream({ keepBodies: false });
  const relay = await startRelay({ settings: { routes: [routeTo(downstream.url)], log: { level: "warn" } } });
  const messages = createMessages("sigterm");
  // One try only: what a connection loses shows as unanswered.
  const sender = openSender(relay, { concurrency: 32, retry: { tries: 1, firstMs: 1, longestMs: 1 } });
  const results = { accepted: 0, shuttingDown: 0, refusedConnection: 0, lost: [] as string[] };
  const over = new AbortController();
  function* posts() {
    for (;;) yield postOf(messages.event());
  }
  const sending = sender.run(posts(), {
    signal: over.signal,
    onResult(_post, result) {
      if (result.kind === "answered" && result.answer === "accepted") results.accepted += 1;
      else if (result.kind === "answered" && result.status === 503) results.shuttingDown += 1;
      else if (result.kind === "unanswered" && result.error === "ECONNREFUSED") results.refusedConnection += 1;
      else results.lost.push(JSON.stringify(result));
    },
  });
  await until("the load is on", () => results.accepted > 500);
  expect(await relay.stop()).toEqual({ code: 0, signal: null });
  await until("new connections are refused", () => results.refusedConnection > 0);
  over.abort();
  await sending;
  // A keep-alive connection may be closed just as the next request sets out on it: that is no answer lost to an accepted event.
  const stored = rowsOf<{ n: number }>(relay.storePath, "SELECT count(*) AS n FROM events")[0]?.n as number;
  expect(stored).toBe(results.accepted);
  expect(results.lost.filter((result) => !/UND_ERR_SOCKET|ECONNRESET|EPIPE/.test(result))).toEqual([]);

  await relay.start();
  await until("the rest is delivered", () => downstream.counts().taken === stored);
  expect(downstream.counts()).toMatchObject({ duplicates: 0, failed: 0 });
});

test("finishes attempts in flight, rejects new requests meanwhile, and sends nothing twice", async () => {
  const { url, open } = await openHandDownstream();
  const server = { shutdownTimeout: "2m", requestTimeout: "2m" };
  const relay = await startRelay({ settings: { server, routes: [routeTo(url, { to: { concurrency: 4, timeout: "2m" } })] } });
  const messages = createMessages("finish");
  const inFlight = openRequest(relay.port, bodyOf(messages.event()));
  for (let n = 0; n < 10; n += 1) await postEvent(relay.webhookUrl, messages.event());
  await until("four attempts are under way", () => open.length === 4);
  const half = await inFlight.begin();
  await until("half a request is in hand", async () =>
    /^relay_webhook_requests_in_flight 1$/m.test(String((await relay.ask("/metrics")).body)),
  );
  relay.signal("SIGTERM");
  await until("it is stopping", () => relay.log().some(({ msg }) => msg === "stopping"));
  expect(await half.finish()).toMatch(/^HTTP\/1\.1 200 .*"status":"accepted"/s);
  await expect(postEvent(relay.webhookUrl, messages.event())).rejects.toThrow("fetch failed");
  expect(relay.isRunning()).toBe(true);
  for (const response of open.splice(0)) response.end("done");
  expect(await relay.ended()).toEqual({ code: 0, signal: null });
  expect(open.length).toBe(0);
  expect(countsOf(relay.storePath, "queue")).toEqual([{ state: 0, n: 7, attempts: 0 }]);
  expect(countsOf(relay.storePath, "deliveries")).toEqual([{ state: 0, n: 4, attempts: 4 }]);
});

test("returns hanging attempts at the deadline without counting them, and sends them after the next start", async () => {
  const downstream = await openDownstream();
  downstream.fail("hang");
  const relay = await startRelay({
    settings: { server: { shutdownTimeout: "1s" }, routes: [routeTo(downstream.url, { to: { concurrency: 4, timeout: "2m" } })] },
  });
  const messages = createMessages("hand back");
  const wamid = messages.wamid();
  const events = [messages.status(wamid, "sent"), messages.status(wamid, "read"), ...Array.from({ length: 8 }, messages.event)];
  for (const event of events) await postEvent(relay.webhookUrl, event);
  await until("four attempts hang", () => downstream.counts().arrivals === 4);
  expect(await relay.stop()).toEqual({ code: 0, signal: null });
  expect(rowsOf(relay.storePath, "SELECT 1 FROM attempts")).toEqual([]);
  expect(
    rowsOf(relay.storePath, "SELECT sum(attempts) AS attempts, sum(spent) AS spent, sum(state) AS states, count(*) AS n FROM queue"),
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
  const relay = await startRelay({ settings: { server: { shutdownTimeout: "2m" }, routes: [routeTo(url, { to: { timeout: "2m" } })] } });
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

test("repeated stops and starts under load lose nothing and accept nothing twice", async () => {
  const downstream = await openDownstream({ keepBodies: false });
  const relay = await startRelay({ settings: { routes: [routeTo(downstream.url)], log: { level: "warn" } } });
  const messages = createMessages("again and again");
  const sender = openSender(relay, { concurrency: 16, rate: 400, retry: untilItIsBack });
  let accepted = 0;
  function* posts() {
    for (let n = 0; n < 900; n += 1) yield postOf(messages.event());
  }
  const sending = sender.run(posts(), { onResult: () => (accepted += 1) });
  for (const at of [150, 400, 650]) {
    await until(`${at} are accepted`, () => accepted >= at);
    expect(await relay.stop()).toEqual({ code: 0, signal: null });
    await relay.start();
  }
  expect(await sending).toMatchObject({ unanswered: 0, otherStatuses: {} });
  await until("all are delivered", () => downstream.counts().taken === 900);
  expect(downstream.counts()).toMatchObject({ duplicates: 0, failed: 0 });
  expect(rowsOf(relay.storePath, "SELECT count(*) AS n FROM events")).toEqual([{ n: 900 }]);
});

/** A signed post by hand, of which half is sent before the test goes on. */
function openRequest(port: number, body: Buffer) {
  const signature = createHmac("sha256", webhookSecret).update(body).digest("hex");
  const head = `POST /webhooks/main HTTP/1.1\r\nhost: relay\r\ncontent-type: application/json\r\nx-acme-signature: ${signature}\r\ncontent-length: ${body.length}\r\n\r\n`;
  return {
    async begin() {
      const socket = connect(port, "127.0.0.1");
      await new Promise<void>((resolve, reject) => socket.once("connect", resolve).once("error", reject));
      let answer = "";
      socket.setEncoding("latin1").on("data", (text: string) => {
        answer += text;
      });
      const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
      await new Promise<void>((resolve) => socket.write(Buffer.concat([Buffer.from(head), body.subarray(0, 20)]), () => resolve()));
      return {
        async finish() {
          socket.write(body.subarray(20));
          await closed;
          return answer;
        },
      };
    },
  };
}
