// Slow: it waits for commands to an unavailable Redis to time out.
import { expect, test } from "vitest";
import { openNetwork } from "../harness/network.ts";
import { postEvent } from "../harness/post-event.ts";
import { createMessages } from "../harness/posts.ts";
import { emptyRedis, fillRedis, makePrimary, makeReplica, redisForTest, restartRedis } from "../harness/redis-states.ts";
import { makeRelay, type RelayProcess } from "../harness/relay-process.ts";
import { until } from "../harness/until.ts";
import { freePort } from "../setup/free-port.ts";

const commandTimeout = 2_000;

async function receiverOn(port: number): Promise<RelayProcess> {
  const url = `redis://127.0.0.1:${port}`;
  return makeRelay({ role: "receive", settings: { storage: { driver: "redis", url, commandTimeout: `${commandTimeout}ms` } } });
}

const messages = createMessages("away");

async function post(
  relay: RelayProcess,
): Promise<{ readonly id: string; readonly status: number; readonly tookMs: number; readonly retryAfter: string | null }> {
  const event = messages.event();
  const answer = await postEvent(relay.webhookUrl, event);
  return { id: event.id, status: answer.status, tookMs: answer.tookMs, retryAfter: answer.headers.get("retry-after") };
}

/** Waits until an event is refused, then looks that the next ones are at once. Gives the ids of the refused ones. */
async function refuses(relay: RelayProcess): Promise<string[]> {
  const first = await until("events are refused", async () => {
    const posted = await post(relay);
    return posted.status === 503 ? posted : null;
  });
  const refused = [first.id];
  const took: number[] = [];
  for (let i = 0; i < 5; i++) {
    const { id, status, tookMs, retryAfter } = await post(relay);
    refused.push(id);
    took.push(tookMs);
    expect(status).toBe(503);
    expect(retryAfter).not.toBeNull();
  }
  // Were each to wait for Redis, even the fastest would take that long. A busy machine slows some, not all.
  expect(Math.min(...took)).toBeLessThan(commandTimeout);
  expect((await relay.ask("/readyz")).status).toBe(503);
  expect((await relay.ask("/healthz")).status).toBe(200);
  return refused;
}

async function accepts(relay: RelayProcess): Promise<void> {
  await until("the relay is ready", async () => (await relay.ask("/readyz")).status === 200);
  // On a busy machine, a command can still take longer than its timeout.
  await until("an event is accepted", async () => (await post(relay)).status === 200);
}

test("a receiver answers 503 at once while Redis is unavailable for any reason, and recovers", async () => {
  const port = await freePort();
  const relay = await receiverOn(port);
  await relay.startListening();
  await refuses(relay);

  const server = await redisForTest({ port, appendonly: "always" });
  await accepts(relay);

  await server.kill();
  await refuses(relay);
  const again = await restartRedis(server, { appendonly: "always" });
  await accepts(relay);

  again.hang();
  await refuses(relay);
  again.goOn();
  await accepts(relay);

  await fillRedis(again);
  await refuses(relay);
  await emptyRedis(again);
  await accepts(relay);

  await makeReplica(again);
  await refuses(relay);
  await makePrimary(again);
  await accepts(relay);

  const said = relay.log().map(({ msg }) => msg);
  const away = said.filter((msg) => String(msg).startsWith("events cannot be stored"));
  // Once each: not there, killed, hung, full, read-only.
  expect(away.length).toBeGreaterThanOrEqual(5);
  expect(away.length).toBeLessThan(10);

  // It ends in order without Redis too.
  await again.kill();
  await refuses(relay);
  expect((await relay.stop()).code).toBe(0);
});

test("a receiver cut off from Redis answers 503, recovers, and does not store rejected events later", async () => {
  const server = await redisForTest();
  const network = await openNetwork(server.port);
  const relay = await receiverOn(network.port);
  await relay.start();
  await accepts(relay);

  network.cut();
  const refused = await refuses(relay);
  await until("the connection is given up", () => network.ended().reset > 0);
  await network.mend();
  await accepts(relay);
  // Each by its id: an event that a busy machine refused in "accepts" may be stored.
  for (const id of refused) {
    const found = await until("it is looked up", async () => {
      const { status } = await relay.ask(`/v1/events/${id}`);
      return status === 503 ? null : status;
    });
    expect(found).toBe(404);
  }

  network.cut("answers");
  await refuses(relay);
  await network.mend();
  await accepts(relay);
});

test("a wrong password ends the start with one line that does not contain it", async () => {
  const server = await redisForTest({ args: ["--requirepass", "right-one"] });
  const url = `redis://:wrong-one@127.0.0.1:${server.port}`;
  const relay = await makeRelay({ settings: { storage: { driver: "redis", url } } });
  expect(await relay.startRefused()).toMatchObject({ code: 1 });
  expect(relay.stderr().trim().split("\n").at(-1)).toMatch(/redis:\/\/127\.0\.0\.1:\d+\/0: Redis refuses the user or the password$/);
  expect(relay.log()).toEqual([]);
  expect(relay.stderr()).not.toContain("wrong-one");
});

test("a single role needs a shared store", async () => {
  const relay = await makeRelay({ role: "work" });
  expect(await relay.startRefused()).toMatchObject({ code: 1 });
  expect(relay.stderr()).toContain("needs storage.driver postgres");
});
