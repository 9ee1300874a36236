import { expect, test } from "vitest";
import { createManualClock } from "../../harness/manual-clock.ts";
import { arrival } from "./arrival.ts";
import { createSharedStore } from "./shared-observations.ts";
import { afterMs, createWatcher } from "./watcher.ts";

const settings = {
  accounts: { main: {} },
  sources: {
    main: { account: "main", signature: { service: "acme", secrets: ["whsec_0123456789"] } },
  },
};

function open(level: "error" | "info" = "error") {
  const clock = createManualClock();
  const shared = createSharedStore(clock);
  const lines: string[] = [];
  const process = (name: string) =>
    createWatcher({
      store: shared.of(name),
      clock,
      settings,
      level,
      write: (line) => void lines.push(line),
    });
  return { clock, shared, lines, process };
}

test("what receivers took in counts for the worker that watches: one alarm, at one process, over with the next event", async () => {
  const { clock, lines, process } = open();
  const [receiver, first, second] = [process("receiver"), process("first"), process("second")];
  for (const each of [first, second, receiver]) each.start();
  for (let n = 0; n < 5; n++) receiver.registered("main", undefined);
  await clock.advance(afterMs + 60_000);
  expect([receiver, first, second].map((each) => each.alarms().length)).toEqual([0, 1, 0]);
  expect(first.alarms()).toMatchObject([{ alarm: "silence", account: "main" }]);
  expect(lines).toHaveLength(1);
  receiver.arrived(arrival("w", "sent"));
  await clock.advance(60_000);
  expect(first.alarms()).toEqual([]);
  await Promise.all([receiver, first, second].map((each) => each.close()));
});

test("webhooks at receivers keep the worker from an alarm that its own asking would raise", async () => {
  const { clock, shared, lines, process } = open();
  const [receiver, worker] = [process("receiver"), process("worker")];
  receiver.start();
  worker.start();
  for (let n = 0; n < 20; n++) {
    worker.found("main", `w${n}`, "delivered");
    receiver.arrived(arrival(`w${n}`, "delivered"));
    shared.store(`w${n}`, { origin: "reconcile", status: "delivered" });
    shared.store(`w${n}`, { origin: "webhook", status: "delivered" });
  }
  await clock.advance(180_000);
  expect(lines).toEqual([]);
  expect(shared.noted.reduce((sum, { missed }) => sum + missed, 0)).toBe(0);
  // The same without webhooks.
  for (let n = 20; n < 40; n++) {
    worker.found("main", `w${n}`, "delivered");
    shared.store(`w${n}`, { origin: "reconcile", status: "delivered" });
  }
  await clock.advance(180_000);
  expect(shared.noted.reduce((sum, { missed }) => sum + missed, 0)).toBe(20);
  expect(lines).toHaveLength(1);
  await Promise.all([receiver.close(), worker.close()]);
});

test.each(["before another watches", "after"])(
  "the one that watches dies while an alarm is in force: it is told of once, and its end once, when events come %s",
  async (when) => {
    const { clock, lines, process } = open("info");
    const [receiver, first, second] = [process("receiver"), process("first"), process("second")];
    for (const each of [first, second, receiver]) each.start();
    const told = () =>
      lines
        .map((line) => JSON.parse(line) as { msg: string })
        .map(({ msg }) => (msg.startsWith("over") ? "ended" : "began"));
    for (let n = 0; n < 5; n++) receiver.registered("main", undefined);
    await clock.advance(afterMs + 60_000);
    expect([receiver, first, second].map((each) => each.alarms().length)).toEqual([0, 1, 0]);
    expect(told()).toEqual(["began"]);
    const since = first.alarms()[0]?.since;
    await first.close();
    if (when === "after") {
      // Messages go on being sent, and nothing comes.
      for (let n = 0; n < 20; n++) {
        receiver.registered("main", undefined);
        await clock.advance(afterMs / 10);
      }
      expect([...receiver.alarms(), ...second.alarms()]).toMatchObject([
        { alarm: "silence", account: "main", since },
      ]);
      expect(told()).toEqual(["began"]);
    }
    receiver.arrived(arrival("w", "sent"));
    await clock.advance(120_000);
    expect(told()).toEqual(["began", "ended"]);
    expect([...receiver.alarms(), ...second.alarms()]).toEqual([]);
    await clock.advance(2 * afterMs);
    expect(told()).toEqual(["began", "ended"]);
    await Promise.all([receiver.close(), second.close()]);
  },
);

test("another process takes over with what was seen before; while the store is away nothing seen is lost", async () => {
  const { clock, shared, lines, process } = open();
  const [receiver, first, second] = [process("receiver"), process("first"), process("second")];
  first.start();
  await clock.advance(20_000);
  second.start();
  receiver.start();
  shared.away(true);
  for (let n = 0; n < 5; n++) receiver.registered("main", undefined);
  await clock.advance(60_000);
  expect(shared.noted).toEqual([]);
  shared.away(false);
  await clock.advance(30_000);
  expect(shared.noted).toMatchObject([{ account: "main", registered: 5 }]);
  await first.close();
  await clock.advance(afterMs + 120_000);
  expect(second.alarms().length + receiver.alarms().length).toBe(1);
  expect(lines).toHaveLength(1);
  await Promise.all([receiver.close(), second.close()]);
});

test("faulty polls of one process are an alarm at the one that watches; another process that finds a message ends it", async () => {
  const { clock, lines, process } = open("info");
  const [watcher, poller, another] = [process("watcher"), process("poller"), process("another")];
  for (const each of [watcher, poller, another]) each.start();
  await clock.advance(30_000);
  poller.polled("main", null);
  await clock.advance(30_000);
  poller.polled("main", { reason: "not-found", detail: "GET /messages/{id}: 404" });
  poller.polled("main", { reason: "not-found", detail: "GET /messages/{id}: 404" });
  await clock.advance(60_000);
  expect(watcher.alarms()).toMatchObject([
    { alarm: "polls", account: "main", text: expect.stringContaining("404 to every poll") },
  ]);
  expect(lines).toHaveLength(1);
  await poller.close();
  another.polled("main", null);
  await clock.advance(60_000);
  expect(watcher.alarms()).toEqual([]);
  expect(lines).toHaveLength(2);
  await Promise.all([watcher.close(), another.close()]);
});

test("bad signatures are an alarm while no account of their source has an event, and until the next event", async () => {
  const clock = createManualClock();
  const watcher = createWatcher({
    store: createSharedStore(clock).of("watcher"),
    clock,
    level: "silent",
    settings: {
      accounts: { busy: {}, quiet: {}, main: {} },
      sources: {
        wa: {
          format: "meta",
          signature: settings.sources.main.signature,
          accounts: { "1": "busy", "2": "quiet", "3": "main" },
        },
      },
    },
  });
  watcher.start();
  const refuse = () => Array.from({ length: 10 }, () => watcher.refused("wa"));
  for (const account of ["quiet", "busy"]) watcher.arrived({ ...arrival("w", "sent"), account });
  refuse();
  await clock.advance(60_000);
  expect(watcher.alarms()).toEqual([]);
  await clock.advance(afterMs);
  refuse();
  await clock.advance(60_000);
  expect(watcher.alarms()).toMatchObject([
    { alarm: "silence", account: "busy", text: "the relay refuses every webhook" },
    { alarm: "silence", account: "quiet" },
    { alarm: "silence", account: "main", causes: [expect.stringContaining("rotated")] },
  ]);
  await clock.advance(2 * afterMs);
  // The other one never had an event.
  expect(watcher.alarms()).toMatchObject([{ account: "busy" }, { account: "quiet" }]);
  watcher.arrived({ ...arrival("w", "sent"), account: "busy" });
  await clock.advance(60_000);
  expect(watcher.alarms()).toEqual([]);
  await watcher.close();
});
