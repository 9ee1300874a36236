import fc from "fast-check";
import { onTestFinished } from "vitest";
import type { Settled } from "../../src/model/delivery.ts";
import type { UnknownPolicy } from "../../src/route/settings.ts";
import type { ContractStore, ContractSubject, OpenSubject } from "./contract-store.ts";
import type { EventParts, RouteParts } from "./store-events.ts";
import { anEvent, rulesFor, start } from "./store-events.ts";

/** A store with these routes, ended with the test. */
export async function openWith(
  open: OpenSubject,
  routes: readonly RouteParts[],
  options?: { unknown?: UnknownPolicy; parkFor?: number },
): Promise<ContractSubject> {
  const subject = await open(rulesFor(routes, options));
  onTestFinished(() => subject.end());
  return subject;
}

/** Accepts a new event and gives its seq; fails when it is not new. */
export async function accept(store: ContractStore, parts: EventParts = {}): Promise<number> {
  const outcome = await store.accept(anEvent(parts));
  if (outcome.result !== "accepted") throw new Error(`not accepted: ${JSON.stringify(outcome)}`);
  return outcome.seq;
}

/**
 * Settles the next attempt of a waiting delivery, as the dispatcher does; gives the released event.
 */
export async function settle(
  store: ContractStore,
  route: string,
  event: number,
  settled: Settled,
  {
    at = start,
    status = settled.to === "delivered" ? 200 : 500,
    stop = undefined as string | undefined,
  } = {},
) {
  const delivery = await store.load(route, event);
  if (delivery === null) throw new Error(`the delivery of ${event} on ${route} is not waiting`);
  return store.settle({
    route,
    event,
    attempt: {
      number: delivery.attempts + 1,
      at,
      tookMs: 3,
      result: { kind: "answered", status, retryAfterMs: null },
      response: Buffer.from(`answer ${status}`),
    },
    settled,
    at,
    ...(delivery.replays === 0 ? { receivedAt: delivery.receivedAt } : {}),
    ...(stop === undefined ? {} : { stop }),
  });
}

/** State of a delivery by its word; null when there is none. */
export async function stateOf(
  store: ContractStore,
  event: number,
  route: string,
): Promise<string | null> {
  return (await store.delivery(event, route))?.state ?? null;
}

export const delivered = { to: "delivered" } as const;
export const dead = { to: "dead", reason: "out of attempts" } as const;
export const later = (nextAt: number) => ({ to: "waiting", nextAt }) as const;

export interface Real {
  readonly subject: ContractSubject;
  store: ContractStore;
}

/** Commands of a random run beside a model; `check` compares both after each. */
export function commandsOf<Model extends { now: number }>(
  check: (model: Model, real: Real) => Promise<void>,
) {
  const command = (
    name: string,
    run: (model: Model, real: Real) => Promise<void>,
    possible: (model: Model) => boolean = () => true,
  ): fc.AsyncCommand<Model, Real> => ({
    check: possible,
    async run(model, real) {
      await run(model, real);
      await check(model, real);
    },
    toString: () => name,
  });
  return {
    command,
    passed: fc.integer({ min: 1, max: 4 }).map((ms) =>
      command(`wait(${ms})`, async (model) => {
        model.now += ms;
      }),
    ),
    reopened: fc.constant(
      command("reopen", async (_model, real) => {
        real.store = await real.subject.reopen();
      }),
    ),
  };
}
