// Slow: it kills a relay under load.
import { expect, test } from "vitest";
import { openDownstream } from "../harness/downstream.ts";
import { createMessages, postOf } from "../harness/posts.ts";
import { startRelay } from "../harness/relay-process.ts";
import { routeTo } from "../harness/relay-settings.ts";
import { runHere } from "../harness/run-here.ts";
import { openSender, untilItIsBack } from "../harness/sender.ts";
import { until } from "../harness/until.ts";

const events = 400;
const killAfter = 100;

test("a relay killed with -9 under load delivers every acknowledged event", async () => {
  const downstream = await openDownstream({ keepBodies: false });
  const relay = await startRelay({
    settings: { log: { level: "warn" }, routes: [routeTo(`${downstream.url}/`, { to: { concurrency: 8 } })] },
  });
  const messages = createMessages("kill9");
  const posts = Array.from({ length: events }, () => postOf(messages.event()));
  const sender = openSender(relay, { concurrency: 8, retry: untilItIsBack });
  let answered = 0;
  const sending = sender.run(posts, { onResult: () => (answered += 1) });
  await until("events are acknowledged", () => answered >= killAfter);
  await relay.kill9();
  expect(answered).toBeLessThan(events);
  await relay.start();
  await sending;

  const ids = [...sender.acknowledged.keys()];
  expect(ids).toHaveLength(events);
  const arrived = () => new Set(downstream.arrivals.map(({ eventId }) => eventId));
  await until("every acknowledged event is delivered", () => ids.every((id) => arrived().has(id)));
  expect((await runHere(["audit", "--config", relay.settingsPath])).code).toBe(0);
  expect(await relay.stop()).toEqual({ code: 0, signal: null });
});
