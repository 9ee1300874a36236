// Slow: it waits real time for a silent connection.
import { expect, onTestFinished, test } from "vitest";
import type { Io } from "../../../src/cli/io.ts";
import { runListen } from "../../../src/cli/listen/run.ts";
import type { Clock } from "../../../src/model/clock.ts";
import { openNetwork } from "../../harness/network.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { startRelay } from "../../harness/relay-process.ts";
import { relayToken } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { post } from "./listener.ts";

const hour = 3_600_000;

/** The machine's clock; while it sleeps time goes on, and timers do not. */
function sleepingClock(): Clock & { sleep(ms: number): void; ended(): number } {
  let slept = 0;
  let ended = 0;
  return {
    now: () => Date.now() + slept,
    after(ms, run) {
      const timer = setTimeout(() => {
        ended += 1;
        run();
      }, ms);
      return () => clearTimeout(timer);
    },
    sleep(ms) {
      slept += ms;
    },
    /** Timers that ran out. */
    ended: () => ended,
  };
}

interface Line {
  readonly type: string;
  readonly id?: string;
  readonly state?: string;
  readonly why?: string;
}

async function listener(relayUrl: string, clock: Clock) {
  const lines: Line[] = [];
  const stop = new AbortController();
  const io: Io = {
    out: (line) => void lines.push(JSON.parse(line) as Line),
    err: () => {},
    isTerminal: false,
    env: {},
    readStdin: async () => Buffer.alloc(0),
  };
  const listening = runListen(io, {
    relay: { url: relayUrl, token: () => relayToken },
    targets: null,
    query: "",
    showsSource: true,
    showsOldest: false,
    as: null,
    maxAttempts: null,
    isJson: true,
    showPii: true,
    clock,
    random: () => 0.5,
    stop: stop.signal,
  });
  onTestFinished(async () => {
    stop.abort();
    await listening;
  });
  const taken = () => lines.flatMap(({ type, id }) => (type === "event" ? [id] : []));
  const states = () =>
    lines.flatMap(({ type, state, why }) => (type === "state" ? [why ?? state] : []));
  await until("it is live", () => states().at(-1) === "live");
  return { taken, states };
}

test("after 24 hours of sleep it detects the dead connection and receives every missed event in order", async () => {
  const relay = await startRelay();
  const network = await openNetwork(relay.port);
  const clock = sleepingClock();
  const { taken, states } = await listener(`http://127.0.0.1:${network.port}`, clock);
  const ids = await post(relay, 3);
  await until("they came", () => taken().length === 3);
  // Nothing says that it is dead: neither end hears of it.
  network.freeze();
  ids.push(...(await post(relay, 40)));
  await relay.kill9();
  await relay.start();
  ids.push(...(await post(relay, 10)));
  expect(taken().length).toBe(3);
  clock.sleep(24 * hour);
  await until("what was missed came", () => taken().length === ids.length);
  expect(taken()).toEqual(ids);
  expect(states()).toEqual(["connecting", "live", "no data came for 45 s", "connecting", "live"]);
});

test("keeps a silent connection until the timeout, also when the clock is set back", {
  tags: ["slow"],
}, async () => {
  const relay = await startRelayHere();
  const network = await openNetwork(relay.port);
  const clock = sleepingClock();
  const { taken, states } = await listener(`http://127.0.0.1:${network.port}`, clock);
  clock.sleep(-5 * hour);
  clock.sleep(20_000);
  const before = clock.ended();
  await until("it looked at the clock twice", () => clock.ended() >= before + 2);
  expect(states().at(-1)).toBe("live");
  const ids = await post(relay, 2);
  await until("they came", () => taken().length === 2);
  expect(taken()).toEqual(ids);
  expect(network.connections()).toBe(1);
});
