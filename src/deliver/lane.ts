import type { Clock } from "../event/clock.ts";
import type { StoredDelivery } from "../event/stored-delivery.ts";
import { type Breaker, type BreakerState, breakerVerdict, createBreaker } from "./breaker.ts";
import { compose } from "./compose.ts";
import { type Decision, decide } from "./decide.ts";
import type { DeliveryStore } from "./delivery-store.ts";
import type { AttemptOutcome, Destination, OutgoingDelivery } from "./destinations/destination.ts";
import { createReadyQueue, type ReadyQueue } from "./ready-queue.ts";
import type { DestinationSettings, Payload } from "./settings.ts";
import { createTokenBucket, type TokenBucket } from "./token-bucket.ts";

/** A route as the dispatcher sees it. */
export interface LaneSettings {
  readonly name: string;
  readonly payload: Payload;
  readonly to: DestinationSettings;
}

export interface AttemptReport {
  readonly delivery: StoredDelivery;
  readonly outgoing: OutgoingDelivery;
  readonly outcome: AttemptOutcome;
  readonly decision: Decision;
}

export interface LaneHooks {
  attempted(report: AttemptReport): void;
  breakerMoved(route: string, state: BreakerState): void;
  stopped(route: string, reason: string): void;
  storeFailed(route: string, error: unknown): void;
}

export interface LaneParts {
  readonly store: DeliveryStore;
  readonly clock: Clock;
  readonly random: () => number;
  readonly connect: (to: DestinationSettings) => Destination;
  readonly hooks: LaneHooks;
}

export interface LaneState {
  readonly inFlight: number;
  readonly breaker: BreakerState;
  /** Why the destination is stopped; null when it is not. */
  readonly stopped: string | null;
}

export interface Lane {
  /** A delivery was planned or released; `at` is unix ms. */
  offer(event: number, at: number): void;
  /** Takes other settings, without losing what is under way; ends a suspension. */
  reconfigure(settings: LaneSettings): void;
  /** Starts nothing more until `reconfigure`: its route is not in the settings. */
  suspend(): void;
  /** Looks into the store again, after somebody else changed it (a resumed destination). */
  wake(): void;
  state(): LaneState;
  /** Starts nothing more; attempts under way may finish within `ms`, then they are handed back. */
  close(ms: number): Promise<void>;
}

/** A destination with the settings it was made from; ended when the last attempt on it is over. */
interface Line {
  readonly settings: LaneSettings;
  readonly destination: Destination;
  readonly breaker: Breaker;
  readonly bucket: TokenBucket | null;
  inFlight: number;
  retired: boolean;
}

/** How long after a failed read or write of the store it is tried again. */
const storeRetryMs = 500;

/**
 * Sends the deliveries of one route. What waits stays in the store; memory holds a window of their
 * numbers (see `ready-queue.ts`), so that a backlog of any length costs the same.
 *
 * Attempts under way are bounded by `concurrency`; settlements not yet durable by four times that,
 * so that connections do not idle while a commit is under way.
 */
export function createLane(initial: LaneSettings, parts: LaneParts): Lane {
  const { store, clock, random, hooks } = parts;
  const route = initial.name;
  const abort = new AbortController();
  const queue: ReadyQueue = createReadyQueue(route, store, clock);
  let line = open(initial);
  let settling = 0;
  let underWay = 0;
  let pausedUntil = 0;
  let stopped = store.stopReason(route);
  let suspended = false;
  let closed = false;
  let cancelTimer: (() => void) | null = null;
  let pumpScheduled = false;
  let onIdle: (() => void) | null = null;

  function open(settings: LaneSettings): Line {
    const { to } = settings;
    return {
      settings,
      destination: parts.connect(to),
      breaker: createBreaker(to.breaker, clock.now),
      bucket: to.rate === undefined ? null : createTokenBucket(to.rate, clock.now),
      inFlight: 0,
      retired: false,
    };
  }

  /** One look per turn of the event loop, however many deliveries asked for it. */
  function schedule(): void {
    if (pumpScheduled || closed) return;
    pumpScheduled = true;
    setImmediate(() => {
      pumpScheduled = false;
      // Closed since: the store may be closed by now, too.
      if (closed) return;
      try {
        store.reading(pump);
      } catch (error) {
        hooks.storeFailed(route, error);
        wakeAt(clock.now() + storeRetryMs);
      }
    });
  }

  function wakeAt(at: number | null): void {
    cancelTimer?.();
    cancelTimer = at === null ? null : clock.after(Math.max(0, at - clock.now()), schedule);
  }

  function pump(): void {
    while (!closed && !suspended && stopped === null && hasRoom()) {
      const now = clock.now();
      const heldUntil = Math.max(pausedUntil, line.breaker.openUntil() ?? 0);
      if (heldUntil > now) {
        wakeAt(heldUntil);
        return;
      }
      const event = queue.peek(now);
      if (event === null) {
        wakeAt(queue.nextDueAt());
        return;
      }
      const delivery = store.load(route, event);
      if (delivery === null) {
        queue.drop();
        continue;
      }
      const { bucket } = line;
      if (bucket !== null && bucket.nextAt() > now) {
        wakeAt(bucket.nextAt());
        return;
      }
      // Half-open with its probe under way: whatever comes of that wakes the lane.
      if (!line.breaker.mayStart()) return;
      bucket?.take();
      queue.start();
      void attempt(line, delivery);
    }
  }

  function hasRoom(): boolean {
    const { concurrency } = line.settings.to;
    return underWay < concurrency && settling < 4 * concurrency;
  }

  async function attempt(on: Line, delivery: StoredDelivery): Promise<void> {
    on.inFlight += 1;
    underWay += 1;
    const outgoing = compose(delivery, on.settings.payload, on.settings.to.passSignature);
    const startedAt = clock.now();
    const outcome = await on.destination.send(outgoing, abort.signal);
    on.inFlight -= 1;
    underWay -= 1;
    const now = clock.now();
    const decision = decide(outcome.result, delivery.spent + 1, on.settings.to.retry, now, random);
    recordHealth(on, decision, outcome);
    hooks.attempted({ delivery, outgoing, outcome, decision });
    settling += 1;
    schedule();
    if (decision.kind !== "again") await settle(delivery, outgoing, outcome, decision, startedAt, now);
    else queue.putBack(delivery.event);
    settling -= 1;
    if (on.retired && on.inFlight === 0) void on.destination.close();
    if (underWay + settling === 0) onIdle?.();
    schedule();
  }

  function recordHealth(on: Line, decision: Decision, outcome: AttemptOutcome): void {
    const before = on.breaker.state();
    on.breaker.record(decision.kind === "again" ? "neutral" : breakerVerdict(outcome.result));
    const after = on.breaker.state();
    if (after !== before && !on.retired) hooks.breakerMoved(route, after);
    if (decision.kind === "retry" && decision.pauseUntil !== null) pausedUntil = Math.max(pausedUntil, decision.pauseUntil);
    if (decision.kind === "stop") {
      stopped = decision.reason;
      hooks.stopped(route, decision.reason);
    }
  }

  /** Writes down what came of an attempt; while the store cannot take it, keeps it and tries again. */
  async function settle(
    delivery: StoredDelivery,
    outgoing: OutgoingDelivery,
    outcome: AttemptOutcome,
    decision: Exclude<Decision, { kind: "again" }>,
    startedAt: number,
    now: number,
  ): Promise<void> {
    const { event } = delivery;
    const settled =
      decision.kind === "delivered"
        ? ({ to: "delivered" } as const)
        : decision.kind === "dead"
          ? ({ to: "dead", reason: decision.reason } as const)
          : ({ to: "waiting", nextAt: decision.kind === "retry" ? decision.at : now } as const);
    const attempt = { number: outgoing.attempt, at: startedAt, ...outcome };
    const stop = decision.kind === "stop" ? { stop: decision.reason } : {};
    for (;;) {
      try {
        const released = await store.settle({ route, event, attempt, settled, at: now, ...stop });
        queue.finish(event, settled.to === "waiting" ? settled.nextAt : null);
        if (released !== null) queue.offer(released, now);
        return;
      } catch (error) {
        hooks.storeFailed(route, error);
        // At shutdown it stays waiting in the store and is sent again: at least once.
        if (closed) return;
        await new Promise<void>((resolve) => clock.after(storeRetryMs, resolve));
      }
    }
  }

  schedule();

  return {
    offer(event, at) {
      queue.offer(event, at);
      schedule();
    },
    reconfigure(settings) {
      const old = line;
      old.retired = true;
      suspended = false;
      line = open(settings);
      if (old.inFlight === 0) void old.destination.close();
      schedule();
    },
    suspend() {
      suspended = true;
    },
    wake() {
      stopped = store.stopReason(route);
      queue.lookAgain();
      schedule();
    },
    state: () => ({ inFlight: underWay, breaker: line.breaker.state(), stopped }),
    async close(ms) {
      closed = true;
      cancelTimer?.();
      if (underWay + settling > 0) {
        const idle = new Promise<void>((resolve) => {
          onIdle = resolve;
        });
        const cancel = clock.after(ms, () => abort.abort());
        await idle;
        cancel();
      }
      await line.destination.close();
    },
  };
}
