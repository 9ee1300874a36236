import { describe, expect, test } from "vitest";
import type { LaneHooks } from "../../../src/deliver/decide.ts";
import type {
  AttemptOutcome,
  Destination,
  OutgoingDelivery,
} from "../../../src/deliver/destinations/destination.ts";
import { createLane, noNotes } from "../../../src/deliver/lane.ts";
import { createPolls, type PollStore } from "../../../src/deliver/polls.ts";
import {
  createReadyQueue,
  type DeliveryStore,
  type QueueOf,
} from "../../../src/deliver/ready-queue.ts";
import { type LaneSettings, urlDestinationSchema } from "../../../src/deliver/settings.ts";
import type {
  DeliverySubject,
  RouteNotes,
  RouteStop,
  Settlement,
  StoredDelivery,
} from "../../../src/model/delivery.ts";
import type { EventId } from "../../../src/model/ids.ts";
import type { MaybePromise } from "../../../src/model/maybe-promise.ts";
import { StoreUnavailable } from "../../../src/store/port.ts";
import { createManualClock, settled } from "../../harness/manual-clock.ts";

const ok: AttemptOutcome = {
  result: { kind: "answered", status: 200, retryAfterMs: null },
  tookMs: 1,
  response: null,
};
const answered = (status: number, retryAfterMs: number | null = null): AttemptOutcome => ({
  result: { kind: "answered", status, retryAfterMs },
  tookMs: 1,
  response: null,
});
const refused: AttemptOutcome = {
  result: { kind: "failed", error: "connect" },
  tookMs: 1,
  response: null,
};

function settings(to: Record<string, unknown> = {}): LaneSettings {
  return {
    name: "r",
    payload: "original",
    to: urlDestinationSchema.parse({ url: "https://example.test/hook", ...to }),
  };
}

/** A store in memory: what waits, until when, and what was settled. */
function memoryStore(count: number, at: number, isShared: boolean) {
  const answer = <T>(read: () => T): MaybePromise<T> =>
    isShared ? Promise.resolve().then(read) : read();
  const waiting = new Map<number, { nextAt: number; attempts: number }>();
  for (let event = 1; event <= count; event++) waiting.set(event, { nextAt: at, attempts: 0 });
  const settlements: Settlement[] = [];
  const held = new Map<number, number>();
  const subjects = new Map<number, DeliverySubject>();
  let failing = false;
  /**
   * Events whose settlements fail although the store is well: all of them, or all but dead letters.
   */
  const refusing = new Map<number, "all" | "living">();
  let stop: RouteStop | null = null;
  let largestLimit = 0;
  type Stores = DeliveryStore & PollStore;
  const store: { -readonly [K in keyof Stores]: Stores[K] } = {
    nextDue: ([route = ""], from) =>
      answer(() => {
        const due = [...waiting.values()].flatMap(({ nextAt }) => (nextAt >= from ? nextAt : []));
        return new Map(due.length === 0 ? [] : [[route, Math.min(...due)]]);
      }),
    due: ({ from, now, limit }) =>
      answer(() => {
        largestLimit = Math.max(largestLimit, limit);
        const places = [...waiting].filter(([, { nextAt }]) => nextAt <= now && nextAt >= from);
        places.sort(([a, x], [b, y]) => x.nextAt - y.nextAt || a - b);
        const later = [...waiting.values()]
          .map(({ nextAt }) => nextAt)
          .filter((nextAt) => nextAt > now);
        return {
          places: places
            .slice(0, limit)
            .map(([event, { nextAt }]) => ({ lane: -event, event, at: nextAt })),
          nextAt: later.length === 0 || places.length >= limit ? null : Math.min(...later),
        };
      }),
    load: (route, keys) =>
      answer(() =>
        keys.flatMap(({ event }) => {
          const entry = waiting.get(event);
          if (entry === undefined) return [];
          const subject = subjects.get(event) ?? null;
          return [
            {
              ...stored(route, event, entry.attempts),
              subject,
              lane: -event,
              cause: null,
              dueAt: entry.nextAt,
            },
          ];
        }),
      ),
    async settle(settlement) {
      if (failing) throw new StoreUnavailable("disk full");
      if (
        refusing.has(settlement.event) &&
        (settlement.settled.to !== "dead" || refusing.get(settlement.event) === "all")
      )
        throw new RangeError("cannot be written");
      settlements.push(settlement);
      const entry = waiting.get(settlement.event);
      if (entry === undefined) throw new Error("settled twice");
      if (settlement.stop !== undefined) stop = { at: settlement.at, reason: settlement.stop };
      if (settlement.settled.to === "waiting") {
        waiting.set(settlement.event, {
          nextAt: settlement.settled.nextAt,
          attempts: entry.attempts + 1,
        });
        return { result: "settled", released: null };
      }
      waiting.delete(settlement.event);
      const released = held.get(settlement.event) ?? null;
      if (released === null) return { result: "settled", released: null };
      waiting.set(released, { nextAt: settlement.at, attempts: 0 });
      return {
        result: "settled",
        released: { lane: -released, event: released, at: settlement.at },
      };
    },
  };
  return {
    store,
    waiting,
    settlements,
    held,
    refusing,
    subjects,
    fail: (value: boolean) => {
      failing = value;
    },
    resume: () => {
      stop = null;
    },
    notesOf: () => answer(() => ({ ...noNotes, stop })),
    largestLimit: () => largestLimit,
  };
}

function stored(route: string, event: number, attempts: number): StoredDelivery {
  return {
    route,
    event,
    account: "main",
    source: "main",
    eventId: `e${event}` as EventId,
    kind: "message.status",
    origin: "webhook",
    receivedAt: 0,
    body: Buffer.from("{}"),
    headers: {},
    attempts,
    spent: attempts,
    replays: 0,
    subject: null,
  };
}

/** A destination that a test answers by hand, or by a rule. */
function handDestination(rule: ((delivery: OutgoingDelivery) => AttemptOutcome) | null = null) {
  const open: { delivery: OutgoingDelivery; answer: (outcome: AttemptOutcome) => void }[] = [];
  const sent: string[] = [];
  const inFlight: Promise<unknown>[] = [];
  let most = 0;
  let closed = false;
  const destination: Destination = {
    send(delivery) {
      sent.push(delivery.eventId ?? "");
      if (rule !== null) return Promise.resolve(rule(delivery));
      const sending = new Promise<AttemptOutcome>((resolve) => {
        const entry = {
          delivery,
          answer: (outcome: AttemptOutcome) => {
            open.splice(open.indexOf(entry), 1);
            resolve(outcome);
          },
        };
        open.push(entry);
        most = Math.max(most, open.length);
      });
      inFlight.push(sending);
      return sending;
    },
    async retire() {
      await Promise.all(inFlight);
      closed = true;
    },
    async close() {
      closed = true;
      for (const entry of [...open])
        entry.answer({ result: { kind: "failed", error: "aborted" }, tookMs: 1, response: null });
    },
  };
  return { destination, open, sent, most: () => most, closed: () => closed };
}

function quietHooks(): LaneHooks & {
  moves: string[];
  stops: string[];
  pauses: number[];
  faults: unknown[];
  failures: string[];
} {
  const moves: string[] = [];
  const stops: string[] = [];
  const pauses: number[] = [];
  const faults: unknown[] = [];
  const failures: string[] = [];
  return {
    moves,
    stops,
    pauses,
    faults,
    failures,
    attempted: () => {},
    breakerMoved: (_route, state) => void moves.push(state),
    stopped: (_route, reason) => void stops.push(reason),
    paused: (_route, until) => void pauses.push(until),
    storeFailed: (_route, error) => void faults.push(error),
    failed: ({ event }, stage, error) =>
      void failures.push(`${event} ${stage}: ${(error as Error).message}`),
  };
}

describe.each([
  ["at once", false],
  ["later", true],
])("over a store that answers %s", (_, isShared) => {
  function setUp(
    count: number,
    to: Record<string, unknown>,
    rule: ((delivery: OutgoingDelivery) => AttemptOutcome) | null = null,
    notes: RouteNotes = noNotes,
  ) {
    const hands = createManualClock();
    let setAhead = 0;
    const clock = {
      ...hands,
      now: () => hands.now() + setAhead,
      set: (ms: number) => {
        setAhead += ms;
      },
    };
    const memory = memoryStore(count, clock.now(), isShared);
    const hand = handDestination(rule);
    const hooks = quietHooks();
    const destinations: ReturnType<typeof handDestination>[] = [];
    const connect = (): Destination => {
      const next = destinations.length === 0 ? hand : handDestination(rule);
      destinations.push(next);
      return next.destination;
    };
    const queueOf: QueueOf = (route, of) =>
      createReadyQueue(route, of, {
        store: memory.store,
        clock,
        polls: isShared ? createPolls(memory.store, clock) : null,
      });
    const lane = createLane(
      settings(to),
      { queueOf, notesOf: memory.notesOf, clock, random: () => 0.5, connect, hooks },
      notes,
    );
    return { clock, memory, hand, hooks, lane, destinations };
  }

  test("makes all attempts, at most `concurrency` at once", async () => {
    const { hand, memory } = setUp(50, { concurrency: 4 });
    await settled();
    expect(hand.open).toHaveLength(4);
    while (hand.open.length > 0) {
      hand.open[0]?.answer(ok);
      await settled();
      expect(hand.open.length).toBeLessThanOrEqual(4);
    }
    expect(hand.most()).toBe(4);
    expect(memory.settlements).toHaveLength(50);
    expect(memory.waiting.size).toBe(0);
  });

  test("begins a few attempts in one turn of the event loop, with many routes as with one", async () => {
    let [inTurn, most] = [0, 0];
    const begun = (): AttemptOutcome => {
      inTurn += 1;
      most = Math.max(most, inTurn);
      return ok;
    };
    const routes = Array.from({ length: 300 }, () => setUp(4, { concurrency: 4 }, begun));
    routes.push(setUp(500, { concurrency: 500 }, begun));
    while (routes.some(({ memory }) => memory.waiting.size > 0)) {
      inTurn = 0;
      await settled(1);
    }
    expect(most).toBeLessThanOrEqual(80);
    expect(routes.every(({ hand, memory }) => hand.sent.length === memory.settlements.length)).toBe(
      true,
    );
  });

  test("reads a long backlog in windows of fixed size", async () => {
    const { memory, clock } = setUp(5_000, { concurrency: 16 }, () => ok);
    while (memory.waiting.size > 0) await clock.advance(1);
    expect(memory.settlements).toHaveLength(5_000);
    expect(new Set(memory.settlements.map(({ event }) => event)).size).toBe(5_000);
    expect(memory.largestLimit()).toBeLessThan(1_200);
  });

  test("sends what a busy store took long to load", async () => {
    const { memory, clock } = setUp(0, { concurrency: 4 }, () => ok);
    const { load } = memory.store;
    if (isShared)
      memory.store.load = (...of) =>
        new Promise((resolve) => clock.after(150, () => resolve(load(...of))));
    for (let event = 1; event <= 20; event += 1)
      memory.waiting.set(event, { nextAt: clock.now(), attempts: 0 });
    await clock.advance(10_000);
    expect(memory.settlements).toHaveLength(20);
  });

  test("finds what another process stored within half a second, and looks at the queue only then", async () => {
    const { memory, clock } = setUp(0, {}, () => ok);
    let looks = 0;
    const { due } = memory.store;
    memory.store.due = (range) => {
      looks += 1;
      return due(range);
    };
    await clock.advance(60_000);
    expect(looks).toBe(1);
    if (!isShared) return;
    memory.waiting.set(1, { nextAt: clock.now(), attempts: 0 });
    memory.waiting.set(2, { nextAt: clock.now() + 700, attempts: 0 });
    await clock.advance(500);
    expect(memory.settlements.map(({ event }) => event)).toEqual([1]);
    await clock.advance(200);
    expect(memory.settlements.map(({ event }) => event)).toEqual([1, 2]);
  });

  test("rests while the store does not answer, though more is due", async () => {
    const { memory, clock } = setUp(200, {}, () => ok);
    memory.waiting.set(201, { nextAt: clock.now() + 10, attempts: 0 });
    if (isShared) memory.store.load = () => new Promise(() => {});
    let timers = 0;
    const { after } = clock;
    clock.after = (ms, run) => (++timers > 50 ? () => {} : after(ms, run));
    await clock.advance(400);
    expect(timers).toBeLessThan(5);
  });

  test("delivers what is due within a minute after the clock was set", async () => {
    const { hand, clock } = setUp(1, { retry: { schedule: ["0s", "10s", "10s"], jitter: 0 } }, () =>
      answered(500),
    );
    await settled();
    expect(hand.sent).toHaveLength(1);
    clock.set(-3_600_000);
    await clock.advance(20_000);
    expect(hand.sent).toHaveLength(1);
    clock.set(3_600_000);
    await clock.advance(60_000);
    expect(hand.sent).toHaveLength(3);
  });

  test("makes no attempts while the breaker is open, and the rest after a successful probe", async () => {
    let up = false;
    const { memory, hand, hooks, clock } = setUp(
      100,
      {
        concurrency: 1,
        breaker: { failures: 3, pause: "10s", longest: "10s" },
        retry: { schedule: ["0s", "1h", "1h"], jitter: 0 },
      },
      () => (up ? ok : refused),
    );
    await settled(40);
    expect(hand.sent).toHaveLength(3);
    await clock.advance(9_999);
    expect(hand.sent).toHaveLength(3);
    await clock.advance(1);
    expect(hand.sent).toHaveLength(4);
    up = true;
    await clock.advance(10_000);
    await settled(500);
    expect(memory.settlements.filter(({ settled: { to } }) => to === "delivered")).toHaveLength(96);
    expect(hooks.moves).toEqual(["open", "open", "closed"]);
    expect([...memory.waiting.values()].every(({ attempts }) => attempts === 1)).toBe(true);
  });

  test("probes with the newest, so that some which always fail do not hold the others up", async () => {
    const bad = 600;
    const { memory, clock, lane } = setUp(bad, {}, ({ eventId }) =>
      Number(eventId?.slice(1)) <= bad ? answered(500) : ok,
    );
    await clock.advance(1_000);
    const arrivals: number[] = [];
    for (let event = bad + 1; event <= bad + 30; event += 1) {
      arrivals.push(clock.now());
      memory.waiting.set(event, { nextAt: clock.now(), attempts: 0 });
      lane.offer({ lane: -event, event, at: clock.now() });
      await clock.advance(20_000);
    }
    const delivered = memory.settlements.filter(({ event }) => event > bad);
    expect(delivered).toHaveLength(30);
    for (const { event, at } of delivered)
      expect(at - (arrivals[event - bad - 1] ?? 0)).toBeLessThan(20_000);
  });

  test("stores that its breaker opened and closed, and the next lane of the route begins with it", async () => {
    const to = {
      concurrency: 1,
      breaker: { failures: 3, pause: "10s", longest: "60s" },
      retry: { schedule: ["0s", "1h"], jitter: 0 },
    };
    const before = setUp(5, to, () => refused);
    await settled(60);
    const changes = before.memory.settlements.flatMap(({ opened }) =>
      opened === undefined ? [] : [opened],
    );
    expect(changes).toMatchObject([{ until: before.clock.now() + 10_000, pause: 10_000 }]);
    const { hand, memory, clock, lane } = setUp(5, to, () => ok, {
      ...noNotes,
      opened: changes[0] ?? null,
    });
    expect(lane.state()).toMatchObject({ breaker: "open" });
    await clock.advance(9_999);
    expect(hand.sent).toHaveLength(0);
    await clock.advance(1);
    await settled(40);
    expect(
      memory.settlements.flatMap(({ opened }) => (opened === undefined ? [] : [opened])),
    ).toEqual([null]);
    expect(hand.sent).toHaveLength(5);
  });

  test("begins stopped when the destination was, and with closed breaker when the settings are others", async () => {
    const stop = setUp(3, {}, () => ok, { ...noNotes, stop: { at: 0, reason: "gone" } });
    await settled(40);
    expect(stop.hand.sent).toHaveLength(0);
    const until = stop.clock.now() + 60_000;
    const others = setUp(3, {}, () => ok, {
      ...noNotes,
      opened: { breaker: "r:other", until, pause: 60_000 },
      pause: { breaker: "r:other", until },
    });
    await settled(40);
    expect(others.hand.sent).toHaveLength(3);
  });

  test("tries one delivery after a pause, before the others go out again, and opens no breaker", async () => {
    const { hand, clock, lane, memory } = setUp(20, { concurrency: 8 });
    await settled();
    const answerAll = async (outcome: AttemptOutcome): Promise<void> => {
      for (const entry of [...hand.open]) entry.answer(outcome);
      await settled();
    };
    await answerAll(answered(429, 1_000));
    expect(hand.sent).toHaveLength(8);
    for (const sent of [9, 10]) {
      await clock.advance(1_000);
      expect(hand.sent).toHaveLength(sent);
      await answerAll(answered(429, 1_000));
    }
    expect(lane.state().breaker).toBe("closed");
    await clock.advance(1_000);
    expect(hand.open).toHaveLength(1);
    await answerAll(ok);
    expect(hand.open).toHaveLength(8);
    while (hand.open.length > 0) await answerAll(ok);
    await clock.advance(60_000);
    while (hand.open.length > 0) await answerAll(ok);
    expect(memory.waiting.size).toBe(0);
  });

  test("pauses the whole destination on 429 with Retry-After, reports it once, and shows it until it or an operator ends it", async () => {
    let busy = true;
    const { hand, clock, lane, hooks, memory } = setUp(10, { concurrency: 2 }, () =>
      busy ? answered(429, 3_600_000) : ok,
    );
    await clock.advance(1000);
    expect(hand.sent).toEqual(["e1", "e2"]);
    const until = clock.now() - 1000 + 3_600_000;
    expect(lane.state().pausedUntil).toBe(until);
    expect(hooks.pauses).toEqual([until]);
    const pauses = memory.settlements.map(({ pause }) => pause);
    expect(pauses).toEqual(
      Array(2).fill({ breaker: expect.stringMatching(/^r:[0-9a-f]{12}$/), until }),
    );
    await clock.advance(3_599_000 - 1);
    expect(hand.sent).toHaveLength(2);
    await clock.advance(1);
    expect(hand.sent).toHaveLength(3);
    expect(hooks.pauses).toEqual([until, clock.now() + 3_600_000]);
    busy = false;
    expect(lane.tryNow()).toBe(true);
    expect(lane.tryNow()).toBe(false);
    expect(lane.state().pausedUntil).toBeNull();
    await clock.advance(1000);
    expect(new Set(hand.sent)).toEqual(
      new Set(Array.from({ length: 10 }, (_, index) => `e${index + 1}`)),
    );
  });

  test("ends the pause when the route's settings change", async () => {
    const { destinations, clock, lane } = setUp(3, { concurrency: 1 }, ({ attempt }) =>
      attempt === 1 ? answered(429, 3_600_000) : ok,
    );
    await clock.advance(1000);
    expect(lane.state().pausedUntil).not.toBeNull();
    lane.reconfigure(settings({ concurrency: 1, url: "https://other.test/" }));
    expect(lane.state().pausedUntil).toBeNull();
    await clock.advance(1000);
    expect(destinations[1]?.sent).toEqual(["e2"]);
  });

  test("stops the destination on 410, reports it once, keeps the deliveries, and continues when resumed", async () => {
    let gone = true;
    const { memory, hand, hooks, lane, clock } = setUp(5, { concurrency: 3 }, () =>
      gone ? answered(410) : ok,
    );
    await clock.advance(3_600_000);
    expect([hand.sent.length, hooks.stops.length]).toEqual([3, 1]);
    expect(lane.state().stopped).not.toBeNull();
    expect(memory.waiting.size).toBe(5);
    gone = false;
    memory.resume();
    lane.wake();
    await clock.advance(10);
    expect(memory.waiting.size).toBe(0);
  });

  test("delays starts by the rate and loses none", async () => {
    const { hand, clock, memory } = setUp(30, { rate: "10/s", concurrency: 50 }, () => ok);
    await settled(50);
    const atOnce = hand.sent.length;
    expect(atOnce).toBeLessThanOrEqual(10);
    await clock.advance(1_000);
    expect(hand.sent.length - atOnce).toBeLessThanOrEqual(11);
    await clock.advance(3_000);
    expect(memory.waiting.size).toBe(0);
  });

  test("keeps a result that cannot be stored, stores it later, and sends nothing twice", async () => {
    const { memory, hand, hooks, clock } = setUp(1, {}, () => ok);
    memory.fail(true);
    await clock.advance(5_000);
    expect(hand.sent).toEqual(["e1"]);
    expect(hooks.faults.length).toBeGreaterThan(3);
    memory.fail(false);
    await clock.advance(1_000);
    expect(memory.waiting.size).toBe(0);
    expect(hand.sent).toEqual(["e1"]);
  });

  /** Metadata that no stack is deep enough to write. */
  const endless = (): DeliverySubject => ({
    type: "message",
    key: "w",
    tracked: true,
    id: null,
    reference: null,
    metadata: JSON.parse(`${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}`),
    previousStatus: null,
    status: "sent",
    moved: true,
  });

  test("makes a delivery that cannot be composed a dead letter, and sends the others", async () => {
    const { memory, hand, hooks, lane, clock } = setUp(3, { concurrency: 1 }, () => ok);
    lane.reconfigure({ ...settings({ concurrency: 1 }), payload: "enriched" });
    memory.subjects.set(2, endless());
    memory.held.set(2, 9);
    await clock.advance(1_000);
    expect(hand.sent.length + memory.settlements.length).toBeGreaterThan(0);
    expect(memory.waiting.size).toBe(0);
    const buried = memory.settlements.find(({ event }) => event === 2);
    expect(buried?.settled).toEqual({
      to: "dead",
      reason: "could not be composed: Maximum call stack size exceeded",
    });
    expect(buried?.attempt).toMatchObject({
      number: 1,
      result: { kind: "failed", error: "internal" },
    });
    expect(
      memory.settlements
        .filter(({ settled: { to } }) => to === "delivered")
        .map(({ event }) => event),
    ).toEqual([1, 3, 9]);
    expect(hooks.failures).toEqual(["2 compose: Maximum call stack size exceeded"]);
    expect(lane.state()).toMatchObject({ inFlight: 0, breaker: "closed" });
  });

  test("loses one attempt when a destination or a hook throws", async () => {
    const { memory, hand, hooks, clock } = setUp(
      3,
      { retry: { jitter: 0 } },
      ({ eventId, attempt }) => {
        if (eventId === "e2" && attempt === 1) throw new TypeError("thrown");
        return ok;
      },
    );
    hooks.attempted = ({ delivery }) => {
      if (delivery.event === 3) throw new TypeError("not logged");
    };
    await clock.advance(10_000);
    expect(hand.sent).toEqual(["e1", "e2", "e3", "e2"]);
    expect(memory.waiting.size).toBe(0);
    expect(hooks.failures).toEqual(["2 send: thrown", "3 report: not logged"]);
    expect(memory.settlements.find(({ event }) => event === 2)).toMatchObject({
      attempt: { result: { error: "internal" } },
      settled: { to: "waiting" },
    });
  });

  test("makes a delivery whose result an available store rejects a dead letter", async () => {
    const { memory, hand, hooks, clock } = setUp(20, { concurrency: 1 }, () => ok);
    for (const event of [1, 2, 3, 4, 5, 6]) memory.refusing.set(event, "living");
    await clock.advance(20_000);
    expect(hand.sent).toHaveLength(20);
    expect(memory.waiting.size).toBe(0);
    expect(memory.settlements.find(({ event }) => event === 1)).toMatchObject({
      settled: { to: "dead", reason: "delivered, which could not be stored: cannot be written" },
      attempt: { response: null },
    });
    expect(hooks.failures).toHaveLength(6);
  });

  test("a delivery that can never be stored delays no other, is not sent again, and does not block closing", async () => {
    const { memory, hand, hooks, lane, clock } = setUp(20, { concurrency: 1 }, () => ok);
    for (const event of [1, 2, 3, 4, 5, 6]) memory.refusing.set(event, "all");
    await clock.advance(200_000);
    expect([...memory.waiting.keys()]).toEqual([1, 2, 3, 4, 5, 6]);
    expect(hand.sent).toHaveLength(20);
    expect(hooks.failures[0]).toBe("1 settle: cannot be written");
    // Tried again once a minute: the cause may be gone.
    memory.refusing.delete(6);
    await clock.advance(61_000);
    expect([...memory.waiting.keys()]).toEqual([1, 2, 3, 4, 5]);
    await lane.close(1_000);
    expect(hand.sent).toHaveLength(20);
  });

  test("lets attempts finish in time when closed, and hands back the rest uncounted", async () => {
    const { memory, hand, lane, clock } = setUp(5, { concurrency: 2 });
    await settled();
    const closing = lane.close(1_000);
    hand.open[0]?.answer(ok);
    await settled();
    expect(hand.open).toHaveLength(1);
    await clock.advance(1_000);
    await closing;
    expect(hand.sent).toHaveLength(2);
    expect(memory.settlements).toHaveLength(1);
    expect(memory.waiting.size).toBe(4);
    expect([...memory.waiting.values()].every(({ attempts }) => attempts === 0)).toBe(true);
    expect(hand.closed()).toBe(true);
  });

  test("does not read the store after it was closed", async () => {
    const { memory, lane, hooks, clock } = setUp(0, {});
    await settled();
    let looks = 0;
    memory.store.due = () => {
      looks += 1;
      throw new Error("the store is closed");
    };
    lane.offer({ lane: -1, event: 1, at: clock.now() });
    await lane.close(1_000);
    await settled();
    expect(looks).toBe(0);
    expect(hooks.faults).toEqual([]);
    expect(clock.pending()).toBe(0);
  });

  test("applies new settings at once and closes the old destination after its last attempt", async () => {
    const { hand, lane, destinations, memory } = setUp(4, { concurrency: 1 });
    await settled();
    lane.reconfigure(settings({ concurrency: 2, url: "https://other.test/" }));
    await settled();
    expect(hand.closed()).toBe(false);
    expect(destinations).toHaveLength(2);
    hand.open[0]?.answer(ok);
    await settled();
    expect(hand.closed()).toBe(true);
    expect(hand.sent).toEqual(["e1"]);
    const next = destinations[1];
    expect(next?.open).toHaveLength(2);
    while ((next?.open.length ?? 0) > 0) {
      next?.open[0]?.answer(ok);
      await settled();
    }
    expect(memory.waiting.size).toBe(0);
    expect(memory.settlements).toHaveLength(4);
  });

  test("remembers since when a destination fails, until it is another one", async () => {
    const { lane } = setUp(1, { concurrency: 1 }, () => answered(503));
    await settled();
    const failing = { attempts: 1, cause: "503" };
    expect(lane.state().failing).toMatchObject(failing);
    lane.reconfigure(Object.assign(settings({ concurrency: 1 }), { match: { events: ["*"] } }));
    expect(lane.state().failing).toMatchObject(failing);
    lane.reconfigure(settings({ concurrency: 1, url: "https://other.test/" }));
    expect(lane.state().failing).toBeNull();
  });

  test("starts nothing while suspended, and continues once reconfigured", async () => {
    const { hand, lane, memory } = setUp(3, { concurrency: 1 }, () => ok);
    lane.suspend(() => {});
    await settled(20);
    expect(hand.sent).toHaveLength(0);
    lane.reconfigure(settings());
    await settled(50);
    expect(memory.waiting.size).toBe(0);
  });

  test("reports once suspended that it is idle, after the attempts in flight", async () => {
    const { hand, lane } = setUp(1, {});
    await settled();
    let reports = 0;
    lane.suspend(() => {
      reports += 1;
    });
    await settled();
    expect([hand.open.length, reports]).toEqual([1, 0]);
    hand.open[0]?.answer(ok);
    await settled();
    expect(reports).toBeGreaterThan(0);
  });

  test("waits for the time of deliveries offered for later", async () => {
    const { memory, hand, lane, clock } = setUp(0, {}, () => ok);
    await settled();
    memory.waiting.set(9, { nextAt: clock.now() + 5_000, attempts: 0 });
    lane.offer({ lane: -9, event: 9, at: clock.now() + 5_000 });
    await clock.advance(4_999);
    expect(hand.sent).toHaveLength(0);
    await clock.advance(1);
    expect(hand.sent).toEqual(["e9"]);
  });

  test("counts deliveries in a row that take more than half of the timeout", async () => {
    const tookMs = [7_000, 7_600, 7_600, 15_000, 7_600, 7_500];
    const before: (number | undefined)[] = [];
    const { lane, clock } = setUp(
      6,
      { timeout: "15s", concurrency: 1, retry: { schedule: ["0s", "1h"], jitter: 0 } },
      () => {
        before.push(lane.state().slow?.attempts);
        const took = tookMs[before.length - 1] ?? 0;
        return took === 15_000 ? { ...refused, tookMs: took } : { ...ok, tookMs: took };
      },
    );
    while (before.length < tookMs.length) await clock.advance(0);
    await settled();
    // A failed attempt neither counts nor ends the row.
    expect(before).toEqual([undefined, undefined, 1, 2, 2, 3]);
    expect(lane.state().slow).toBeNull();
  });
});
