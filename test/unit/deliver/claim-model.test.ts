import fc from "fast-check";
import { expect, test } from "vitest";
import type { ClaimStore } from "../../../src/deliver/claim-queue.ts";
import { createClaimQueue } from "../../../src/deliver/claim-queue.ts";
import type { AttemptOutcome, Destination } from "../../../src/deliver/destinations/destination.ts";
import { createLane, type Lane } from "../../../src/deliver/lane.ts";
import { type LaneSettings, urlDestinationSchema } from "../../../src/deliver/settings.ts";
import type { Clock } from "../../../src/model/clock.ts";
import { createManualClock, settled } from "../../harness/manual-clock.ts";
import { createClaimsInMemory } from "./claims-in-memory.ts";

/** Destinations that let start at once, that hold back, and that are held by their breakers. */
const settingsList = [
  { breaker: { failures: 1000 } },
  { rate: "5/s", breaker: { failures: 1000 } },
  { breaker: { failures: 2, pause: "3s", longest: "10s" } },
].map((more) => ({
  name: "r",
  payload: "original" as const,
  to: urlDestinationSchema.parse({
    url: "https://example.test/hook",
    concurrency: 3,
    retry: { schedule: Array.from({ length: 100 }, () => "1s"), jitter: 0 },
    ...more,
  }),
}));

interface Start {
  readonly event: number;
  readonly worker: string;
}

/** A worker process of its own: it can be stopped for a while (SIGSTOP, a suspended host) and killed. */
function createWorker(name: string, world: World) {
  let state: "running" | "stopped" | "killed" = "running";
  let waiting: (() => void)[] = [];

  /** Runs `then` while the process runs: later when it is stopped, never when it is killed. */
  function inside(then: () => void): void {
    if (state === "running") then();
    else if (state === "stopped") waiting.push(then);
  }
  function answered<T>(work: () => Promise<T>): Promise<T> {
    if (state === "killed") return new Promise(() => {});
    return new Promise((resolve, reject) => {
      // The store does it at once; the answer takes its time, and others overtake it.
      const ended = work();
      const turns = world.turns();
      ended.then(
        (value) => void settled(turns).then(() => inside(() => resolve(value))),
        (error: unknown) => void settled(turns).then(() => inside(() => reject(error))),
      );
    });
  }
  const { store } = world.claims;
  const claimsOf: ClaimStore = {
    claim: (...order) => answered(() => store.claim(...order)),
    renew: (...order) => answered(() => store.renew(...order)),
    handBack: (...order) => answered(() => store.handBack(...order)),
    settle: (...order) => answered(() => store.settle(...order)),
  };
  const clock: Clock = { now: world.clock.now, after: (ms, run) => world.clock.after(ms, () => inside(run)) };
  const destination: Destination = {
    send: (delivery) => {
      const event = Number(delivery.eventId?.slice(1));
      world.started({ event, worker: name });
      return new Promise((resolve) => {
        world.answers.push((outcome) => inside(() => resolve(outcome)));
      });
    },
    async close() {},
  };
  const lane: Lane = createLane(world.settings, {
    queueOf: (route, of) => createClaimQueue(route, of, { store: claimsOf, clock, holder: name }),
    clock,
    random: () => 0.5,
    connect: () => destination,
    hooks: { attempted() {}, breakerMoved() {}, stopped() {}, paused() {}, storeFailed() {}, failed() {} },
  });
  return {
    lane,
    stop() {
      if (state === "running") state = "stopped";
    },
    go() {
      if (state !== "stopped") return;
      state = "running";
      for (const run of waiting.splice(0)) run();
    },
    kill() {
      state = "killed";
      waiting = [];
    },
    isKilled: () => state === "killed",
  };
}

interface World {
  readonly settings: LaneSettings;
  readonly clock: ReturnType<typeof createManualClock>;
  readonly claims: ReturnType<typeof createClaimsInMemory>;
  readonly answers: ((outcome: AttemptOutcome) => void)[];
  started(start: Start): void;
  /** Turns of the event loop that the next answer of the store takes. */
  turns(): number;
}

type Step =
  | { readonly plan: number }
  | { readonly wait: number }
  | { readonly answer: "ok" | "bad"; readonly which: number }
  | { readonly kill: number }
  | { readonly stop: number }
  | { readonly go: number }
  | { readonly suspend: number }
  | { readonly down: boolean };

const place = fc.nat({ max: 2 });
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.nat({ max: 3 }).map((plan): Step => ({ plan })) },
  { weight: 4, arbitrary: fc.constantFrom(1, 400, 2500, 40_000).map((wait): Step => ({ wait })) },
  { weight: 8, arbitrary: fc.record({ answer: fc.constantFrom("ok" as const, "ok" as const, "bad" as const), which: fc.nat({ max: 8 }) }) },
  { weight: 1, arbitrary: place.map((kill): Step => ({ kill })) },
  { weight: 1, arbitrary: place.map((stop): Step => ({ stop })) },
  { weight: 1, arbitrary: place.map((go): Step => ({ go })) },
  { weight: 1, arbitrary: place.map((suspend): Step => ({ suspend })) },
  { weight: 1, arbitrary: fc.boolean().map((down): Step => ({ down })) },
);

const answered = (status: number): AttemptOutcome => ({
  result: { kind: "answered", status, retryAfterMs: null },
  tookMs: 1,
  response: null,
});

test("loses nothing and keeps the order when workers or the store fail, and sends twice only after a lost lease", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 20, maxLength: 100, size: "max" }),
      fc.array(fc.nat({ max: 5 }), { minLength: 1 }),
      fc.constantFrom(...settingsList),
      async (steps, delays, settings) => {
        const clock = createManualClock();
        const claims = createClaimsInMemory(clock.now);
        const starts: Start[] = [];
        const faults: string[] = [];
        let asked = 0;
        const world: World = {
          settings,
          clock,
          claims,
          answers: [],
          turns() {
            asked += 1;
            return delays[asked % delays.length] as number;
          },
          started(start) {
            const row = claims.rows.get(start.event);
            // Nobody else has had it since it was claimed: so nothing behind it has started, and it is not over.
            if (row?.state !== "waiting") faults.push(`${start.event} started while ${row?.state}`);
            if (row?.lease?.holder !== start.worker)
              faults.push(`${start.event} started by ${start.worker}, leased to ${row?.lease?.holder}`);
            starts.push(start);
          },
        };
        let made = 0;
        const create = () => {
          made += 1;
          return createWorker(`w${made}`, world);
        };
        const workers = [create(), create(), create()];
        let disturbed = false;
        for (const one of steps) {
          if ("plan" in one) {
            const { event } = claims.plan(one.plan);
            for (const { lane } of workers) lane.offer({ lane: 0, event, at: clock.now() });
          } else if ("wait" in one) await clock.advance(one.wait);
          else if ("answer" in one) {
            const [answer] = world.answers.splice(one.which % Math.max(1, world.answers.length), 1);
            answer?.(answered(one.answer === "ok" ? 200 : 500));
          } else if ("down" in one) claims.fail(one.down ? new Error("down") : null);
          else if ("kill" in one) {
            workers[one.kill]?.kill();
            workers[one.kill] = create();
          } else if ("stop" in one) workers[one.stop]?.stop();
          else if ("go" in one) workers[one.go]?.go();
          else workers[one.suspend]?.lane.suspend();
          disturbed ||= "kill" in one || "stop" in one || "down" in one;
          await clock.advance(0);
        }
        claims.fail(null);
        for (const worker of workers) {
          worker.go();
          worker.lane.reconfigure(settings);
        }
        for (let round = 0; round < 400 && claims.open().length > 0; round += 1) {
          for (const answer of world.answers.splice(0)) answer(answered(200));
          await clock.advance(round % 10 === 9 ? 40_000 : 10);
        }
        expect(faults).toEqual([]);
        expect(claims.open()).toEqual([]);
        expect(new Set(starts.map(({ event }) => event)).size).toBe(claims.rows.size);
        // Each start is a result that was written, unless a worker or the store was away in between.
        if (!disturbed) expect(starts).toHaveLength(claims.settlements.length);
        expect(starts.length).toBeGreaterThanOrEqual(claims.settlements.length);
        const closing = workers.map(({ lane }) => lane.close(1000));
        await clock.advance(2000);
        await Promise.all(closing);
        expect(claims.leased()).toEqual([]);
      },
    ),
    { numRuns: 40 },
  );
});
