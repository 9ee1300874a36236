import { expect, test } from "vitest";
import { createSandboxClock } from "../../../../src/sandbox/clock.ts";
import { startDownstream } from "../../../../src/sandbox/downstream.ts";
import { createManualClock } from "../../../harness/manual-clock.ts";
import { until } from "../../../harness/until.ts";
import { startRaw } from "../../url-destination/downstream.ts";
import { startTestServer } from "../test-server.ts";
import { createStage } from "./stage.ts";

const bodyOf = (body: Buffer | null) => JSON.parse(body?.toString("utf8") ?? "null");

test("a 100 Continue that the sandbox did not ask for is no answer", async () => {
  const server = await startTestServer((response) => {
    response.writeContinue();
    response.end();
  });
  await using stage = createStage({ speed: 100_000 });
  stage.addWebhook(`${server.url}/hook`);
  stage.status("wamid.A", "sent");
  await stage.posting.idle();
  expect(server.seen).toHaveLength(1);
  expect(stage.deliveries()).toMatchObject([{ status: "delivered", tries: 1, answered: 200 }]);
});

test("a redirect is a failure, and is not followed", async () => {
  const server = await startTestServer((response) =>
    response.writeHead(307, { location: "/elsewhere" }).end(),
  );
  await using stage = createStage({ speed: 100_000 });
  stage.addWebhook(`${server.url}/hook`);
  stage.status("wamid.A", "sent");
  await stage.posting.idle();
  expect(server.seen.map(({ path }) => path)).toEqual(Array.from({ length: 6 }, () => "/hook"));
  expect(stage.deliveries()).toMatchObject([{ status: "failed", tries: 6, answered: 307 }]);
});

test("Retry-After is honoured", async () => {
  const server = await startTestServer((response, _, count) =>
    response.writeHead(count === 1 ? 429 : 200, { "retry-after": "7" }).end(),
  );
  const clock = createManualClock();
  await using stage = createStage({ clock, speed: 1 });
  stage.addWebhook(server.url);
  stage.status("wamid.A", "sent");
  await until("the first answer", () => stage.deliveries()[0]?.tries === 1);
  await clock.advance(6_999);
  expect(server.seen).toHaveLength(1);
  await clock.advance(1);
  await stage.posting.idle();
  expect(server.seen).toHaveLength(2);
});

test("a receiver has ten seconds of the machine's time, whatever the sandbox's clock says", async () => {
  const downstream = await startDownstream();
  downstream.fail("hang");
  const baseClock = createManualClock();
  const clock = createSandboxClock(baseClock);
  await using stage = createStage({ baseClock, clock, speed: 1 });
  stage.addWebhook(downstream.url);
  stage.status("wamid.A", "sent");
  await until("the first try", () => downstream.arrivals.length === 1);
  clock.advance(60_000);
  await baseClock.advance(9_999);
  expect(stage.deliveries()).toMatchObject([{ tries: 0 }]);
  await baseClock.advance(1);
  expect(stage.deliveries()).toMatchObject([
    { tries: 1, status: "waiting", answered: null, reason: "no answer within 10000 ms" },
  ]);
  downstream.recover();
  clock.advance(1_000);
  await stage.posting.idle();
  expect(stage.deliveries()).toMatchObject([{ tries: 2, status: "delivered" }]);
  await downstream.close();
});

test("a connection on which nobody answered in time is cut, so that the next post has a place", async () => {
  let cut = 0;
  const server = await startTestServer((response) => void response.on("close", () => (cut += 1)));
  const baseClock = createManualClock();
  await using stage = createStage({ baseClock, clock: createManualClock() });
  stage.addWebhook(server.url);
  for (let number = 0; number < 100; number += 1) stage.status(`wamid.${number}`, "sent");
  await until("as many as fit", () => server.seen.length === 64);
  await baseClock.advance(10_000);
  await until("the others", () => server.seen.length === 100);
  await until("the connections cut", () => cut === 64);
});

test("an answer without end counts by its status, and does not keep its connection", async () => {
  let ended = 0;
  const server = await startTestServer((response) => {
    response.on("close", () => {
      ended += 1;
    });
    const drip = () => {
      if (!response.destroyed) response.write("x".repeat(16_384), () => setImmediate(drip));
    };
    drip();
  });
  await using stage = createStage();
  stage.addWebhook(server.url);
  for (let number = 0; number < 100; number += 1) stage.status(`wamid.${number}`, "sent");
  await stage.posting.idle();
  expect(new Set(stage.deliveries().map(({ status }) => status))).toEqual(new Set(["delivered"]));
  await until("all connections cut", () => ended === 100);
});

test("what is no HTTP is a failure", async () => {
  const { url } = await startRaw(
    (socket) => void socket.once("data", () => socket.end("no HTTP at all\r\n\r\n")),
  );
  await using stage = createStage({ speed: 100_000 });
  stage.addWebhook(url);
  stage.status("wamid.A", "sent");
  await stage.posting.idle();
  expect(stage.deliveries()).toMatchObject([{ status: "failed", tries: 6, answered: null }]);
});

test("a URL that hangs does not hold up another on the same host", async () => {
  const downstream = await startDownstream();
  downstream.fail("hang", "/hangs");
  await using stage = createStage();
  stage.addWebhook(`${downstream.url}/hangs`);
  stage.addWebhook(`${downstream.url}/works`);
  for (let number = 0; number < 300; number += 1) stage.status(`wamid.${number}`, "sent");
  await until(
    "all at the one that works",
    () => downstream.counts("/works").taken + downstream.counts("/works").withoutId >= 300,
  );
  await until(
    "all places of the one that hangs are used",
    () => downstream.counts("/hangs").arrivals >= 64,
  );
  expect(downstream.counts("/hangs").arrivals).toBe(64);
  downstream.recover();
  await stage.posting.idle();
  await downstream.close();
});

test("the first tries of a message's events arrive in order, one after the other, at every URL; failing ones hold nobody back", async () => {
  const steps = ["sent", "delivered", "read"] as const;
  const underWay = new Set<string>();
  const faults: string[] = [];
  const seen = new Map<string, string[]>();
  const server = await startTestServer((response, { path, body }, count) => {
    const { wamid, status } = bodyOf(body).data;
    const message = `${path} ${wamid}`;
    if (underWay.has(message)) faults.push(`${message} twice at once`);
    underWay.add(message);
    seen.set(message, [...(seen.get(message) ?? []), status]);
    setTimeout(
      () => {
        underWay.delete(message);
        response.writeHead(count % 5 === 0 ? 500 : 200).end();
      },
      (count * 7) % 20,
    );
  });
  // The world stands still, so that no retry comes between.
  await using stage = createStage({ clock: createManualClock() });
  stage.addWebhook(`${server.url}/a`);
  stage.addWebhook(`${server.url}/b`);
  for (const status of steps)
    for (let number = 0; number < 150; number += 1) stage.status(`wamid.${number}`, status);
  await until("all first tries", () => stage.deliveries().every(({ tries }) => tries === 1));
  expect(faults).toEqual([]);
  expect(seen.size).toBe(300);
  for (const order of seen.values()) expect(order).toEqual(steps);
  expect(stage.deliveries().filter(({ status }) => status === "waiting")).toHaveLength(180);
});
