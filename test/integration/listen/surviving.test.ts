import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startRelayHere } from "../../harness/relay-here.ts";
import { startRelay } from "../../harness/relay-process.ts";
import { until } from "../../harness/until.ts";
import { post, standsAt, startListen, startListenHere } from "./listener.ts";
import { openLocalServer } from "./local-server.ts";

test("delivers each event once, in order, across a kill -9 and restart of the relay", async () => {
  const relay = await startRelay();
  const local = await openLocalServer();
  const listener = startListen(relay.url, ["--forward-to", local.url]);
  await listener.live();
  const ids = await post(relay, 20);
  await relay.kill9();
  await relay.start();
  // Nobody listens yet.
  ids.push(...(await post(relay, 5)));
  await listener.live(2);
  ids.push(...(await post(relay, 5)));
  await until("all are taken", () => local.taken().length >= ids.length);
  expect(local.taken()).toEqual(ids);
  expect(listener.err()).toMatch(/ reconnecting in \d+ s because /m);
  expect(await listener.stop()).toBe(0);
});

test("--as: another checkout continues after the last accepted event, also after kill -9 of the listener", async () => {
  const relay = await startRelayHere();
  const local = await openLocalServer();
  const first = startListenHere(relay.url, ["--forward-to", local.url, "--as", "ana"]);
  await first.live();
  const ids = await post(relay, 5);
  await until("all are taken", () => local.taken().length === 5);
  await standsAt(relay, "ana", 5);
  expect(await first.stop()).toBe(0);
  ids.push(...(await post(relay, 5)));

  const second = startListen(relay.url, ["--forward-to", local.url, "--as", "ana"]);
  await until("what was missed is taken", () => local.taken().length === 10);
  expect(local.taken()).toEqual(ids);
  await standsAt(relay, "ana", 10);
  // Refused, so that it is killed in the middle of an event.
  local.answer(500);
  const [missed] = await post(relay, 1);
  await until("it is refused", () => local.posts.some(({ status }) => status === 500));
  await second.kill9();
  local.answer(200);
  startListenHere(relay.url, ["--forward-to", local.url, "--as", "ana"]);
  await until("it is taken", () => local.taken().at(-1) === missed);
  expect(local.taken()).toEqual([...ids, missed]);

  const other = startListenHere(relay.url, ["--json", "--as", "ben"]);
  await other.live();
  expect(other.said("event")).toEqual([]);
  const latest = startListenHere(relay.url, ["--json", "--since", "1h"]);
  await until("everything came", () => latest.said("event").length === 11);
});

test("reads and uses a token of the settings that changed", async () => {
  const tokens = (token: string) => ({
    control: { tokens: [{ name: "dev", token, scopes: ["listen"] }] },
  });
  const relay = await startRelayHere({ settings: tokens("the-first-token-of-all") });
  const local = await openLocalServer();
  const own = join(relay.folder, "of-the-listener.yaml");
  copyFileSync(relay.settingsPath, own);
  const listener = startListenHere(null, ["--forward-to", local.url, "--config", own]);
  await listener.live();
  const ids = await post(relay, 1);
  await until("it is taken", () => local.taken().length === 1);
  await relay.stop();
  relay.writeSettings(tokens("the-second-token-of-all"));
  await relay.start();
  await until("the old one is refused", () =>
    listener.err().includes("because the relay refuses the token (unknown token)"),
  );
  ids.push(...(await post(relay, 2)));
  copyFileSync(relay.settingsPath, own);
  await until("all are taken", () => local.taken().length === 3);
  expect(local.taken()).toEqual(ids);
});
