// Slow: it drives the screen of a listener in a process of its own.
import { PassThrough } from "node:stream";
import { expect, onTestFinished, test } from "vitest";
import type { Io } from "../../../src/cli/io.ts";
import { createTargets } from "../../../src/cli/listen/forward.ts";
import { runListen } from "../../../src/cli/listen/run.ts";
import { privateView } from "../../../src/cli/output.ts";
import { systemClock } from "../../../src/model/system-clock.ts";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { relayToken } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { openLocalServer } from "./local-server.ts";

test("on a terminal it redraws a status line, and has keys to replay, skip, pause, filter and quit", { tags: ["slow"] }, async () => {
  const relay = await startRelayHere();
  const local = await openLocalServer();
  const raw: boolean[] = [];
  const keys = Object.assign(new PassThrough(), { setRawMode: (is: boolean) => void raw.push(is) }) as unknown as NodeJS.ReadStream &
    PassThrough;
  const printed: string[] = [];
  const io: Io = {
    out: (line) => void printed.push(line.replace("\x1b[1A\x1b[0J", "")),
    err: (line) => void printed.push(`err ${line}`),
    isTerminal: true,
    env: {},
    readStdin: async () => Buffer.alloc(0),
  };
  const stop = Promise.withResolvers<void>();
  onTestFinished(() => stop.resolve());
  let isOver = false;
  const running = runListen(io, {
    relay: { url: relay.url, token: () => relayToken },
    targets: createTargets({ forwardTo: [local.url], allowRemote: false, headers: {}, secret: null }, Date.now),
    query: new URLSearchParams(),
    as: "ana",
    since: null,
    tries: null,
    isJson: false,
    view: privateView(false),
    keys,
    columns: () => 300,
    clock: systemClock,
    random: Math.random,
    stop: stop.promise,
  }).then(() => {
    isOver = true;
  });
  const status = () => printed.findLast((line) => line.includes("q quit")) ?? "";
  const messages = createMessages("terminal");
  const post = async () => void (await postEvent(relay.webhookUrl, messages.event()));

  await until("it is live", () => status().startsWith("live  |  0 in, 0 taken"));
  expect(raw).toEqual([true]);
  await post();
  await until("it is taken", () => status().startsWith("live  |  1 in, 1 taken"));
  keys.write("r");
  await until("it came again", () => local.posts.length === 2);
  expect(local.posts[1]?.headers["webhook-replay"]).toBe("true");

  local.answer(503);
  await post();
  await until("it waits", () => /^live, behind 1 .* waiting for the local server \([1-9]\d* failed\)/.test(status()));
  keys.write("s");
  await until("it is passed over", () => status().startsWith("live  |  2 in, 1 taken, 1 skipped"));
  local.answer(200);

  keys.write("p");
  await until("it is paused", () => status().startsWith("paused, live"));
  const before = local.posts.length;
  await post();
  await until("it is behind", () => status().startsWith("paused, live, behind 1"));
  expect(local.posts.length).toBe(before);
  keys.write("p");
  await until("it is taken", () => status().startsWith("live  |  3 in, 2 taken"));

  keys.write("fautomation.*\r");
  await until("the filter is asked for", () => /^live {2}\|.*\| {2}events automation\.\*/.test(status()));
  await post();
  // Not wanted: the cursor goes past it all the same.
  const cursor = async () =>
    ((await relay.ask("/v1/listen/cursors/ana", { method: "POST", body: { seq: 0 } })).body as { seq: number }).seq;
  await until("the relay knows how far it came", async () => (await cursor()) === 4);
  expect(local.posts.length).toBe(before + 1);
  expect(printed.some((line) => line.startsWith("err"))).toBe(false);

  await relay.stop();
  await until("it says why", () => /^reconnecting in \d+ s because /.test(status()));
  await relay.start();
  await until("it is live again", () => status().startsWith("live  |"));
  keys.write("q");
  await until("it is over", () => isOver);
  await running;
  expect(raw).toEqual([true, false]);
});
