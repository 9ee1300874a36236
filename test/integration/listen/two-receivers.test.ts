// Slow: it starts a server and two receivers, and kills each of them.
import { expect, test } from "vitest";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { type RelayProcess, startRelay } from "../../harness/relay-process.ts";
import { until } from "../../harness/until.ts";
import { startPostgres } from "../../setup/postgres.ts";
import { standsAt, startListen } from "./listener.ts";
import { openLocalServer } from "./local-server.ts";
import { openProxy } from "./tcp-proxy.ts";

const messages = createMessages("two receivers");
async function twoReceivers(url: string) {
  const start = () => startRelay({ role: "receive", settings: { storage: { driver: "postgres", url } } });
  return Promise.all([start(), start()]);
}

/** Posts so many events to each of the relays in turn, and gives their ids. */
async function post(count: number, ...relays: readonly RelayProcess[]): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; n < count; n++) {
    for (const relay of relays) {
      const event = messages.event();
      expect((await postEvent(relay.webhookUrl, event)).word).toBe("accepted");
      ids.push(event.id);
    }
  }
  return ids;
}

test("continues at the other receiver after the last 2xx when one is killed, each event once and in order", {
  tags: ["slow"],
}, async () => {
  await using server = await startPostgres({ durable: true });
  const [one, other] = await twoReceivers(server.url);
  const local = await openLocalServer();
  // What a balancer before them does.
  const balancer = await openProxy(one.port);
  const listener = startListen(balancer.url, ["--forward-to", local.url, "--as", "ana"]);
  await listener.live();
  const ids = await post(10, one, other);
  await until("some are taken", () => local.taken().length >= 5);

  balancer.lead(other.port);
  await one.kill9();
  ids.push(...(await post(5, other)));
  await listener.live(2);
  await until("all are taken", () => local.taken().length === ids.length);
  expect(local.taken()).toEqual(ids);

  // And back again, in the middle of an event: refused here, so it is not done with.
  await one.start();
  local.answer(500);
  ids.push(...(await post(3, one, other)));
  await until("it is refused", () => local.posts.some(({ status }) => status === 500));
  balancer.lead(one.port);
  await other.kill9();
  local.answer(200);
  await listener.live(3);
  ids.push(...(await post(2, one)));
  await until("all are taken", () => local.taken().length >= ids.length);
  expect(local.taken()).toEqual(ids);

  // The name is known wherever one asks: another laptop goes on there.
  await standsAt(one, "ana", ids.length);
  expect(await listener.stop()).toBe(0);
  await other.start();
  ids.push(...(await post(2, one)));
  startListen(other.url, ["--forward-to", local.url, "--as", "ana"]);
  await until("what was missed is taken", () => local.taken().length >= ids.length);
  expect(local.taken()).toEqual(ids);

  // The server itself, killed and started again.
  await server.kill("SIGKILL");
  await server.restart();
  ids.push(...(await until("it is stored again", () => post(1, one).catch(() => null))));
  await until("it is taken", () => local.taken().length >= ids.length);
  expect(local.taken()).toEqual(ids);
});
