// Slow: it removes or damages the file of a running relay.
import { closeSync, copyFileSync, openSync, renameSync, rmSync, statSync, truncateSync, writeFileSync, writeSync } from "node:fs";
import { expect, test } from "vitest";
import type { SandboxEvent } from "../../src/sandbox/events/event-maker.ts";
import { openDownstream } from "../harness/downstream.ts";
import { postEvent } from "../harness/post-event.ts";
import { createMessages } from "../harness/posts.ts";
import { startRelayHere } from "../harness/relay-here.ts";
import { type RelayProcess, startRelay } from "../harness/relay-process.ts";
import { routeTo } from "../harness/relay-settings.ts";
import { rowsOf } from "../harness/store-rows.ts";
import { until } from "../harness/until.ts";

/** Path of a file in which a relay has stored these events, and ended. */
async function fileWith(events: readonly SandboxEvent[]): Promise<string> {
  const relay = await startRelayHere({ settings: nowhere });
  await Promise.all(events.map((event) => postEvent(relay.webhookUrl, event)));
  await relay.stop();
  return relay.storePath;
}

const nowhere = { routes: [routeTo("http://127.0.0.1:9/")] };
const isReady = async (relay: RelayProcess) => (await relay.ask("/readyz")).status === 200;
const storingErrors = (relay: RelayProcess) => relay.log().filter(({ msg }) => String(msg).startsWith("events cannot be stored"));
/** The log is written a moment after the answer. */
const saidSo = (relay: RelayProcess) => until("the log says so", () => storingErrors(relay).length > 0);
const gone = /relay\.db(-wal)? was deleted or replaced while in use; put it back, or restart the relay/;

test.each(["", "-wal"])("relay.db%s moved away: answers 503, and recovers when it is moved back", async (suffix) => {
  const downstream = await openDownstream();
  const relay = await startRelay({ settings: { routes: [routeTo(downstream.url)] } });
  const messages = createMessages("moved");
  const before = messages.event();
  await postEvent(relay.webhookUrl, before);
  await until("the first is delivered", () => downstream.counts().taken === 1);
  downstream.fail({ status: 500 });
  await postEvent(relay.webhookUrl, messages.event());
  await until("the second waits", () => downstream.counts().failed > 0);

  const path = `${relay.storePath}${suffix}`;
  renameSync(path, `${path}.away`);
  const refused = Array.from({ length: 10 }, messages.event);
  const took: number[] = [];
  for (const event of refused) {
    const posted = await postEvent(relay.webhookUrl, event);
    expect(posted).toMatchObject({ status: 503, word: "store_unavailable" });
    took.push(posted.tookMs);
  }
  // A busy machine slows some, not all of them.
  expect(Math.min(...took)).toBeLessThan(1_000);
  const registration = { account: "main", wamid: messages.wamid() };
  expect((await relay.ask("/v1/messages/track", { method: "POST", body: registration })).status).toBe(503);
  expect(await relay.ask("/readyz")).toMatchObject({ status: 503, body: { reason: expect.stringMatching(gone) } });
  downstream.recover();

  renameSync(`${path}.away`, path);
  await until("it is ready by itself", () => isReady(relay));
  expect(await postEvent(relay.webhookUrl, before)).toMatchObject({ word: "duplicate" });
  for (const event of refused) expect(await postEvent(relay.webhookUrl, event)).toMatchObject({ word: "accepted" });
  await until("everything is delivered", () => downstream.counts().taken === 12);
  await until("and written down", () => rowsOf(relay.storePath, "SELECT 1 FROM deliveries WHERE state = 0").length === 12);
  expect(storingErrors(relay).length).toBe(1);
});

test("file truncated while in use: answers 503, is not ready, and a restart rejects the rest", async () => {
  const messages = createMessages("truncated");
  const relay = await startRelay({ settings: nowhere });
  for (let n = 0; n < 20; n += 1) expect(await postEvent(relay.webhookUrl, messages.event())).toMatchObject({ word: "accepted" });
  truncateSync(relay.storePath, 0);
  expect(await postEvent(relay.webhookUrl, messages.event())).toMatchObject({ status: 503, word: "store_unavailable" });
  const reason = expect.stringMatching(/relay\.db was truncated while in use.*Stop the relay, then restore .*relay\.db from a copy/);
  expect(await relay.ask("/readyz")).toMatchObject({ status: 503, body: { reason } });
  // It does not come back by itself, whatever is written into the file.
  writeFileSync(relay.storePath, Buffer.alloc(1_000_000));
  expect(await postEvent(relay.webhookUrl, messages.event())).toMatchObject({ status: 503 });
  await saidSo(relay);
  expect(storingErrors(relay).length).toBe(1);
  truncateSync(relay.storePath, 0);
  await relay.kill9();
  expect(await relay.startRefused()).toEqual({ code: 1, signal: null });
  expect(relay.stderr()).toMatch(/relay\.db is empty, and its -wal is not: it was truncated/);
});

test("file truncated without traffic: becomes not ready", async () => {
  const relay = await startRelay({ settings: nowhere });
  await postEvent(relay.webhookUrl, createMessages("idle").event());
  truncateSync(relay.storePath, 0);
  await until("it is not ready", async () => !(await isReady(relay)));
});

test("file replaced by a copy: answers 503 until a restart, which uses the copy", async () => {
  const messages = createMessages("replaced");
  const kept = messages.event();
  const relay = await startRelay({ storePath: await fileWith([kept]), settings: nowhere });
  copyFileSync(relay.storePath, `${relay.storePath}.copy`);
  renameSync(`${relay.storePath}.copy`, relay.storePath);
  const event = messages.event();
  expect(await postEvent(relay.webhookUrl, event)).toMatchObject({ status: 503 });
  expect(await isReady(relay)).toBe(false);
  await relay.stop();
  const next = await startRelayHere({ storePath: relay.storePath, settings: nowhere });
  expect(await postEvent(next.webhookUrl, kept)).toMatchObject({ word: "duplicate" });
  expect(await postEvent(next.webhookUrl, event)).toMatchObject({ word: "accepted" });
});

test("file deleted: acknowledges nothing, and a restart creates a new file", async () => {
  const relay = await startRelay({ settings: nowhere });
  const messages = createMessages("deleted");
  await postEvent(relay.webhookUrl, messages.event());
  for (const suffix of ["", "-wal", "-shm"]) rmSync(`${relay.storePath}${suffix}`);
  const event = messages.event();
  expect(await postEvent(relay.webhookUrl, event)).toMatchObject({ status: 503, word: "store_unavailable" });
  expect(relay.isRunning()).toBe(true);
  expect(await relay.stop()).toEqual({ code: 0, signal: null });
  const next = await startRelayHere({ storePath: relay.storePath, settings: nowhere });
  expect(await postEvent(next.webhookUrl, event)).toMatchObject({ word: "accepted" });
  expect(rowsOf(relay.storePath, "SELECT 1 FROM events").length).toBe(1);
});

test("file destroyed: answers 200 or 503, and keeps running", async () => {
  const messages = createMessages("destroyed");
  const relay = await startRelay({ storePath: await fileWith(Array.from({ length: 300 }, messages.event)), settings: nowhere });
  const file = openSync(relay.storePath, "r+");
  const { size } = statSync(relay.storePath);
  writeSync(file, Buffer.alloc(size - 4096, 0xab), 0, size - 4096, 4096);
  closeSync(file);
  const answers = await Promise.all(Array.from({ length: 100 }, () => postEvent(relay.webhookUrl, messages.event())));
  const words = new Set(answers.map(({ status, word }) => `${status} ${word}`));
  expect([...words].filter((word) => word !== "200 accepted" && word !== "503 store_unavailable")).toEqual([]);
  expect(words).toContain("503 store_unavailable");
  await saidSo(relay);
  expect(storingErrors(relay)[0]).toMatchObject({ err: { message: expect.stringMatching(/is damaged; stop the relay.*SQLITE_CORRUPT/) } });
  for (const path of ["/v1/events?limit=1000", "/v1/deliveries?limit=1000", "/v1/messages?limit=1000"]) {
    const { status, body } = await relay.ask(path);
    if (status !== 200) expect([path, status, body]).toEqual([path, 503, expect.objectContaining({ code: "store_unavailable" })]);
  }
  expect(await relay.ask("/readyz")).toMatchObject({ status: 503, body: { reason: expect.stringMatching(/is damaged; stop the relay/) } });
  expect((await relay.ask("/healthz")).status).toBe(200);
  expect(relay.isRunning()).toBe(true);
});
