import { setTimeout as wait } from "node:timers/promises";
import { createDispatcher } from "../../../src/deliver/dispatcher.ts";
import { lanesOf } from "../../../src/deliver/lane.ts";
import { createRouteLeases } from "../../../src/deliver/route-leases.ts";
import { type LaneSettings, urlDestinationSchema } from "../../../src/deliver/settings.ts";
import { type Clock, systemClock } from "../../../src/model/clock.ts";
import type { Lease, LeaseStore } from "../../../src/model/route-lease.ts";
import { createCommands, createStore } from "../../../src/store/create-store.ts";
import type { Rules } from "../../../src/store/port.ts";
import type { SharedDatabase } from "../../contract/one-store.ts";
import { until } from "../../harness/until.ts";

/** For workers of which one dies. Of these, each would lose its routes when the machine pauses. */
export const quick = { beatMs: 100, deadlineMs: 500, deadAfterMs: 1_000 };
const patient = { beatMs: 100, deadlineMs: 60_000, deadAfterMs: 120_000 };

export interface AttemptMade {
  readonly worker: string;
  readonly route: string;
  readonly eventId: string;
  /** Of the worker's lease. */
  readonly epoch: number;
  /** By `performance.now()`. */
  readonly at: number;
}

/** A process that can stand still, as after `SIGSTOP`: no timer fires and no answer arrives. */
function createStandstill() {
  let going: { readonly promise: Promise<void>; resolve(): void } | null = null;
  const passes = async (): Promise<void> => {
    while (going !== null) await going.promise;
  };
  const gated = async <T>(answer: Promise<T>): Promise<T> => {
    try {
      return await answer;
    } finally {
      await passes();
    }
  };
  const clock: Clock = {
    now: systemClock.now,
    after(ms, run) {
      let isCancelled = false;
      const cancel = systemClock.after(ms, () => void passes().then(() => isCancelled || run()));
      return () => {
        isCancelled = true;
        cancel();
      };
    },
  };
  return {
    clock,
    passes,
    gated,
    stop() {
      going ??= Promise.withResolvers<void>();
    },
    go() {
      going?.resolve();
      going = null;
    },
  };
}

interface WorkerParts {
  readonly name: string;
  readonly routes: readonly string[];
  readonly attempts: AttemptMade[];
  readonly tookMs?: number;
  /** Of each route. */
  readonly shards?: number;
}

export type Worker = Awaited<ReturnType<typeof startWorker>>;

/** A worker of the routes, whose attempts take `tookMs` and succeed. */
export async function startWorker(
  shared: SharedDatabase,
  rules: Rules,
  { name, routes, attempts, tookMs = 1, shards = 1 }: WorkerParts,
) {
  const times = { ...patient };
  const held = new Map<string, Lease>();
  const opened = await shared.open(rules, { writer: name });
  const commands = createCommands({ rules, writer: name, held: () => held });
  const standstill = createStandstill();
  const { clock, gated, passes } = standstill;
  const store = createStore(
    {
      run: async (kind, item) => (await gated(opened.send(() => kind, [item])))[0] as never,
      read: (work) => gated(opened.read(work)),
    },
    { commands, rules },
  );
  const faults: unknown[] = [];
  let beatAt = Number.NEGATIVE_INFINITY;
  const leases: LeaseStore = {
    ...store.leases,
    async beat(...given) {
      const sentAt = performance.now();
      const view = await store.leases.beat(...given);
      beatAt = sentAt;
      return view;
    },
  };
  let most = 0;
  let inFlight = 0;
  const dispatcher = createDispatcher([], {
    ...lanesOf(store, clock, true),
    leases: (lanes) =>
      createRouteLeases(lanes, {
        worker: name,
        store: leases,
        clock,
        elapsed: () => performance.now(),
        held,
        failed: (error) => faults.push(error),
        times,
      }),
    clock,
    random: () => 0.5,
    connect: (to) => {
      const closing = Promise.withResolvers<void>();
      let isClosing = false;
      return {
        async send(delivery) {
          const route = "url" in to ? new URL(to.url).pathname.slice(1) : "";
          attempts.push({
            worker: name,
            route,
            eventId: String(delivery.eventId),
            epoch: held.get(route)?.epoch ?? 0,
            at: performance.now(),
          });
          inFlight += 1;
          most = Math.max(most, inFlight);
          await Promise.race([wait(tookMs), closing.promise]);
          await passes();
          inFlight -= 1;
          const result = isClosing
            ? ({ kind: "failed", error: "aborted" } as const)
            : ({ kind: "answered", status: 200, retryAfterMs: null } as const);
          return { result, tookMs, response: null };
        },
        async retire() {},
        async close() {
          isClosing = true;
          closing.resolve();
        },
      };
    },
    hooks: {
      attempted: () => {},
      breakerMoved: () => {},
      stopped: () => {},
      paused: () => {},
      storeFailed: (_route, error) => faults.push(error),
      failed: (_delivery, _stage, error) => faults.push(error),
    },
  });
  /** As after a reload of the settings. */
  const reload = (of: number): void =>
    dispatcher.reload(routes.map((route) => laneSettings(route, of)));
  reload(shards);
  return {
    reload,
    name,
    store,
    dispatcher,
    held,
    faults,
    /** When its last heartbeat that was stored began, by `performance.now()`. */
    beatAt: () => beatAt,
    /** It loses its routes soon after it dies, and notices soon when others do. */
    async hurry(): Promise<void> {
      Object.assign(times, quick);
      const now = performance.now();
      await until("a heartbeat was stored", () => beatAt > now);
    },
    stop: standstill.stop,
    go: standstill.go,
    close: () => dispatcher.close(1_000),
  };
}

const laneSettings = (name: string, shards: number): LaneSettings => ({
  name,
  shards,
  payload: "original",
  to: urlDestinationSchema.parse({ url: `https://example.test/${name}`, concurrency: 8 }),
});
