// @module-tag slow: it removes or damages the file of a running relay.
import { renameSync, truncateSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { openDownstream } from "../harness/downstream.ts";
import { postEvent } from "../harness/post-event.ts";
import { createMessages } from "../harness/posts.ts";
import { type RelayHere, startRelayHere } from "../harness/relay-here.ts";
import { startRelay } from "../harness/relay-process.ts";
import { routeTo } from "../harness/relay-settings.ts";
import { rowsOf } from "../harness/store-rows.ts";
import { longestWaitMs, until } from "../harness/until.ts";

type Asked = Pick<RelayHere, "ask" | "log">;
const isReady = async (relay: Asked) => (await relay.ask("/readyz")).status === 200;
const storingErrors = (relay: Asked) =>
  relay.log().filter(({ msg }) => String(msg).startsWith("events cannot be stored"));
test("file moved away: answers 503, and recovers when it is moved back", async () => {
  const downstream = await openDownstream();
  const relay = await startRelayHere({ settings: { routes: [routeTo(downstream.url)] } });
  const messages = createMessages("moved");
  const before = messages.event();
  await postEvent(relay.webhookUrl, before);
  await until("the first is delivered", () => downstream.counts().taken === 1);
  downstream.fail({ status: 500 });
  await postEvent(relay.webhookUrl, messages.event());
  await until("the second waits", () => downstream.counts().failed > 0);

  renameSync(relay.storePath, `${relay.storePath}.away`);
  const refused = Array.from({ length: 10 }, messages.event);
  const took: number[] = [];
  for (const event of refused) {
    const posted = await postEvent(relay.webhookUrl, event);
    expect(posted).toMatchObject({ status: 503, word: "store_unavailable" });
    took.push(posted.tookMs);
  }
  // At once, and not after a wait for the file: a busy machine slows some, not all of them.
  expect(Math.min(...took)).toBeLessThan(longestWaitMs / 10);
  const registration = { account: "main", wamid: messages.wamid() };
  expect(
    (await relay.ask("/v1/messages/track", { method: "POST", body: registration })).status,
  ).toBe(503);
  expect(await relay.ask("/readyz")).toMatchObject({
    status: 503,
    body: {
      reason: expect.stringMatching(
        /relay\.db was deleted or replaced while in use; put it back, or restart the relay/,
      ),
    },
  });
  downstream.recover();

  renameSync(`${relay.storePath}.away`, relay.storePath);
  await until("it is ready by itself", () => isReady(relay));
  expect(await postEvent(relay.webhookUrl, before)).toMatchObject({ word: "duplicate" });
  for (const event of refused)
    expect(await postEvent(relay.webhookUrl, event)).toMatchObject({ word: "accepted" });
  await until("everything is delivered", () => downstream.counts().taken === 12);
  await until(
    "and written down",
    () => rowsOf(relay.storePath, "SELECT 1 FROM deliveries WHERE state = 0").length === 12,
  );
  expect(storingErrors(relay).length).toBe(1);
});

test("file truncated while in use: answers 503, is not ready, and a restart rejects the rest", async () => {
  const messages = createMessages("truncated");
  const relay = await startRelay({ settings: { routes: [] } });
  for (let n = 0; n < 20; n += 1)
    expect(await postEvent(relay.webhookUrl, messages.event())).toMatchObject({ word: "accepted" });
  truncateSync(relay.storePath, 0);
  // Without traffic, too.
  await until("it is not ready", async () => !(await isReady(relay)));
  expect(await postEvent(relay.webhookUrl, messages.event())).toMatchObject({
    status: 503,
    word: "store_unavailable",
  });
  const reason = expect.stringMatching(
    /relay\.db was truncated while in use.*Stop the relay, then restore .*relay\.db from a copy/,
  );
  expect(await relay.ask("/readyz")).toMatchObject({ status: 503, body: { reason } });
  // It does not come back by itself, whatever is written into the file.
  writeFileSync(relay.storePath, Buffer.alloc(1_000_000));
  expect(await postEvent(relay.webhookUrl, messages.event())).toMatchObject({ status: 503 });
  // The log is written a moment after the answer.
  await until("the log says so", () => storingErrors(relay).length > 0);
  expect(storingErrors(relay).length).toBe(1);
  truncateSync(relay.storePath, 0);
  await relay.kill9();
  expect(await relay.startRefused()).toEqual({ code: 1, signal: null });
  expect(relay.stderr()).toMatch(/relay\.db is empty, and its -wal is not: it was truncated/);
});
