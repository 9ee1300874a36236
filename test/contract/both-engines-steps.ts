import fc from "fast-check";
import { expect } from "vitest";
import type { DeliveryState } from "../../src/event/delivery.ts";
import { isProxyRoute, proxyRoute } from "../../src/event/proxy-route.ts";
import type { Soon } from "../../src/event/soon.ts";
import type { Settlement, StoredDelivery } from "../../src/event/stored-delivery.ts";
import type { Stats } from "../../src/store/inspecting.ts";
import type { PlanAgainFilter, ReplayCursor, ReplayFilter, ReplayFound } from "../../src/store/replay-filters.ts";
import type { Rules } from "../../src/store/rules.ts";
import type { Store } from "../../src/store/store.ts";
import { anEvent, rulesFor } from "./store-events.ts";

/** A store of either engine, as far as both are compared. */
export interface Engine {
  readonly store: Pick<
    Store,
    | "read"
    | "accept"
    | "quarantine"
    | "retry"
    | "resume"
    | "register"
    | "expireParked"
    | "findReplay"
    | "replay"
    | "findUnplanned"
    | "planAgain"
    | "beginSend"
    | "settleSend"
    | "sweep"
  > & { load(route: string, event: number): Soon<StoredDelivery | null> };
  /** Gives the event of the delivery it released. */
  settle(settlement: Settlement): Promise<number | null>;
  stats(): Promise<Stats>;
}

/** One step of a run, of plain numbers and words so that a failing run can be read. */
export type Step =
  | {
      readonly do: "accept";
      readonly about: "message" | "run" | "nothing" | "truncated";
      /** Which of a few. */
      readonly of: number;
      readonly account: string;
      readonly source: string;
      readonly status: string;
      readonly errorCode: string | null;
      /** Comes again under an id of before, with the same bytes or other ones. */
      readonly again: "no" | "same" | "other";
      readonly proxied: boolean;
      readonly drawn: number;
    }
  | { readonly do: "quarantine"; readonly source: string }
  | { readonly do: "register"; readonly of: number; readonly account: string; readonly reference: number | null; readonly id: boolean }
  | { readonly do: "expire" }
  | {
      readonly do: "attempt";
      readonly drawn: number;
      readonly to: "delivered" | "dead" | "waiting";
      readonly spares: boolean;
      readonly stop: boolean;
      readonly answer: "status" | "error" | "nothing";
    }
  | { readonly do: "retry"; readonly drawn: number }
  | { readonly do: "resume"; readonly route: string }
  | { readonly do: "send"; readonly what: "message" | "run"; readonly of: number }
  | { readonly do: "replay"; readonly states: ReplayFilter["states"]; readonly route: string | undefined }
  | { readonly do: "plan again"; readonly disposition: PlanAgainFilter["disposition"] }
  /** The settings are changed: with the route `late`, or without it. */
  | { readonly do: "reload"; readonly late: boolean };

/** Each step with the time since the one before. */
export type Timed = Step & { readonly after: number };

export const routes = [
  { name: "most", match: { sources: ["main"] } },
  { name: "failures", match: { statuses: ["failed"] } },
  { name: "mine", match: { tracked: true } },
  { name: "loose", match: { events: ["message.*"], sources: ["main"] }, order: "none" },
  { name: "moves", match: { events: ["message.*"], sources: ["main"] }, emit: "transitions", firstWait: 500 },
  { name: "held", match: { events: ["message.*"], accounts: ["other"] }, truncated: "hold" },
] as const;

/** Rules that a step can change, as a reload of the settings does. */
export interface SwitchedRules extends Rules {
  late: boolean;
}

export function switchedRules(): SwitchedRules {
  const early = rulesFor(routes, { parkFor: 60_000 });
  const late = rulesFor([...routes, { name: "late" }], { parkFor: 60_000 });
  return {
    ...early,
    late: false,
    plan(event, tracking) {
      return (this.late ? late : early).plan(event, tracking);
    },
  };
}

const account = fc.constantFrom("main", "main", "other");
const source = fc.constantFrom("main", "second");

const accepted = fc.record({
  do: fc.constant("accept" as const),
  about: fc.constantFrom(
    "message" as const,
    "message" as const,
    "message" as const,
    "run" as const,
    "nothing" as const,
    "truncated" as const,
  ),
  of: fc.nat(2),
  account,
  source,
  status: fc.constantFrom("sent", "delivered", "read", "failed", "odd"),
  errorCode: fc.constantFrom(null, "131026"),
  again: fc.constantFrom("no" as const, "no" as const, "no" as const, "same" as const, "other" as const),
  proxied: fc.nat(9).map((n) => n === 0),
  drawn: fc.nat(),
});

export const steps: fc.Arbitrary<Timed[]> = fc.array(
  fc
    .oneof(
      { weight: 8, arbitrary: accepted },
      {
        weight: 6,
        arbitrary: fc.record({
          do: fc.constant("attempt" as const),
          drawn: fc.nat(),
          to: fc.constantFrom("delivered" as const, "delivered" as const, "dead" as const, "waiting" as const),
          spares: fc.boolean(),
          stop: fc.nat(5).map((n) => n === 0),
          answer: fc.constantFrom("status" as const, "error" as const, "nothing" as const),
        }),
      },
      {
        weight: 3,
        arbitrary: fc.record({
          do: fc.constant("register" as const),
          of: fc.nat(2),
          account,
          reference: fc.option(fc.nat(1)),
          id: fc.boolean(),
        }),
      },
      { weight: 1, arbitrary: fc.record({ do: fc.constant("quarantine" as const), source }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant("expire" as const) }) },
      { weight: 2, arbitrary: fc.record({ do: fc.constant("retry" as const), drawn: fc.nat() }) },
      {
        weight: 2,
        arbitrary: fc.record({
          do: fc.constant("send" as const),
          what: fc.constantFrom("message" as const, "run" as const),
          of: fc.nat(2),
        }),
      },
      {
        weight: 1,
        arbitrary: fc.record({
          do: fc.constant("replay" as const),
          states: fc.constantFrom(["delivered"] as const, ["dead"] as const, ["delivered", "dead"] as const),
          route: fc.constantFrom(undefined, "most", "loose"),
        }),
      },
      {
        weight: 2,
        arbitrary: fc.record({
          do: fc.constant("plan again" as const),
          disposition: fc.constantFrom("filtered" as const, "ignored" as const),
        }),
      },
      { weight: 2, arbitrary: fc.record({ do: fc.constant("reload" as const), late: fc.boolean() }) },
      {
        weight: 1,
        arbitrary: fc.record({ do: fc.constant("resume" as const), route: fc.constantFrom(...routes.map(({ name }) => name)) }),
      },
    )
    .chain((step) => fc.constantFrom(0, 1, 400, 30_000).map((after) => ({ ...step, after }))),
  { minLength: 20, maxLength: 80, size: "max" },
);

/** What was accepted so far, for what comes again. */
export type Known = { readonly event: ReturnType<typeof anEvent> }[];

/** Does the same on both; what they answer must be the same too. */
export async function doOnBoth(
  engines: readonly [Engine, Engine],
  rules: SwitchedRules,
  step: Timed,
  now: number,
  known: Known,
): Promise<void> {
  const [model] = engines;
  const both = async <T>(run: (engine: Engine) => Promise<T>): Promise<void> => {
    const outcomes = await Promise.all(engines.map((engine) => run(engine).catch((error: Error) => ({ error: error.message }))));
    expect(settledOrder(outcomes[1])).toEqual(settledOrder(outcomes[0]));
  };
  switch (step.do) {
    case "accept": {
      const before = step.again === "no" || known.length === 0 ? null : (known[step.drawn % known.length]?.event ?? null);
      const event = before === null ? eventOf(step, now) : step.again === "same" ? { ...before, receivedAt: now } : otherBytes(before, now);
      if (before === null) known.push({ event });
      const proxied = before === null && step.proxied ? proxyRoute(step.source) : null;
      await both(({ store }) => store.accept(event, proxied));
      break;
    }
    case "quarantine": {
      const { account, origin, body, headers } = anEvent({ source: step.source });
      const quarantined = { account, source: step.source, origin, receivedAt: now, body, headers, secret: "fingerprint", error: "no id" };
      await both(({ store }) => store.quarantine(quarantined));
      break;
    }
    case "register": {
      const { of, account, reference, id } = step;
      const registration = {
        account,
        wamid: wamidOf(of),
        ...(reference === null ? {} : { reference: `reference-${reference}`, metadata: { n: reference } }),
        ...(id ? { id: `id-${account}-${of}`, sentAt: now - 10 } : {}),
      };
      await both(({ store }) => store.register([registration], now));
      break;
    }
    case "expire":
      await both(({ store }) => store.expireParked(now, 100));
      break;
    case "attempt": {
      const delivery = await drawn(model, step.drawn, ["waiting"]);
      // An exchange of a proxy happens once.
      if (delivery === null || (isProxyRoute(delivery.route) && step.to === "waiting")) break;
      await both((engine) => engine.settle(settlementOf(step, delivery, now)));
      break;
    }
    case "retry": {
      const delivery = await drawn(model, step.drawn, ["waiting", "held", "delivered", "dead"]);
      // An exchange of a proxy is not sent again by anybody.
      if (delivery === null || isProxyRoute(delivery.route)) break;
      await both(({ store }) => store.retry(delivery.event, delivery.route, now));
      break;
    }
    case "send": {
      const { what, of } = step;
      const key = { account: "main", kind: what, key: `key-${what}-${of}` } as const;
      const sent =
        what === "run"
          ? ({ type: "run", runId: `run-${of}`, reference: "reference-1", metadata: { n: of } } as const)
          : ({
              type: "message",
              id: `id-main-${of}`,
              wamid: wamidOf(of),
              status: "pending",
              conversationId: "c",
              reference: undefined,
              metadata: undefined,
            } as const);
      await both(async ({ store }) => {
        const held = await store.beginSend(key, { fingerprint: "f", resend: 0, about: "", at: now });
        if (held !== null) return held;
        return { due: await store.settleSend(key, { end: "done", at: now, answer: {}, sent }) };
      });
      break;
    }
    case "replay": {
      const filter = { states: step.states, route: step.route };
      await both(async ({ store }) =>
        walked(
          now,
          (cursor) => store.findReplay(filter, cursor, now, 7),
          ({ found }) => store.replay(found, step.states, now),
        ),
      );
      break;
    }
    case "plan again":
      await both(async ({ store }) =>
        walked(
          now,
          (cursor) => store.findUnplanned(step, cursor, 7),
          ({ found }) => store.planAgain([...new Set(found.map(({ event }) => event))], step, now),
        ),
      );
      break;
    case "reload":
      rules.late = step.late;
      break;
    case "resume":
      await both(({ store }) => store.resume(step.route));
  }
}

/** A walk to its end; what each part did, together. */
async function walked(
  since: number,
  look: (cursor: ReplayCursor) => Soon<ReplayFound>,
  act: (found: ReplayFound) => Promise<{ replayed: number; due: readonly unknown[] }>,
): Promise<{ replayed: number; due: unknown[] }> {
  const sum = { replayed: 0, due: [] as unknown[] };
  for (let cursor: ReplayCursor | null = { since, event: 0, route: 0 }; cursor !== null; ) {
    const found: ReplayFound = await look(cursor);
    const { replayed, due } = await act(found);
    sum.replayed += replayed;
    sum.due.push(...due);
    cursor = found.cursor;
  }
  return sum;
}

const wamidOf = (of: number): string => `wamid.${of}`;

function eventOf({ about, of, account, source, status, errorCode }: Extract<Step, { do: "accept" }>, receivedAt: number) {
  const parts = { account, source, receivedAt, at: receivedAt - 5 };
  if (about === "truncated") return anEvent({ ...parts, event: "message.status", data: { truncated: true, id: null, size: 9 } });
  if (about === "nothing") return anEvent({ ...parts, event: "automation.requested" });
  if (about === "message") return anEvent({ ...parts, wamid: wamidOf(of), status, errorCode });
  return anEvent({ ...parts, runId: `run-${of}`, event: status === "failed" ? "automation.failed" : "automation.completed" });
}

function otherBytes(event: ReturnType<typeof anEvent>, receivedAt: number) {
  return { ...event, receivedAt, body: Buffer.concat([event.body, Buffer.from(" ")]) };
}

async function drawn({ store }: Engine, number: number, states: readonly DeliveryState[]) {
  const all = (await store.read.deliveries.list({ limit: 1_000 })).filter(({ state }) => states.includes(state));
  return all.length === 0 ? null : (all[number % all.length] ?? null);
}

function settlementOf(
  { to, spares, stop, answer }: Extract<Step, { do: "attempt" }>,
  { event, route, attempts }: { event: number; route: string; attempts: number },
  at: number,
): Settlement {
  const status = to === "delivered" ? 200 : 500;
  const result =
    answer === "status" || to === "delivered"
      ? ({ kind: "answered", status, retryAfterMs: null } as const)
      : ({ kind: "failed", error: "timeout" } as const);
  const settled =
    to === "delivered"
      ? ({ to } as const)
      : to === "dead"
        ? ({ to, reason: "out of attempts" } as const)
        : ({ to, nextAt: at + 1_000, ...(spares ? { spares } : {}) } as const);
  return {
    route,
    event,
    attempt: { number: attempts + 1, at, tookMs: 3, result, response: answer === "nothing" ? null : Buffer.from(`answer\n${status}`) },
    settled,
    at,
    ...(stop ? { stop: "gone" } : {}),
  };
}

/** What becomes due is a set: engines name it in orders of their own. */
function settledOrder(outcome: unknown): unknown {
  if (typeof outcome !== "object" || outcome === null || !("due" in outcome) || !Array.isArray(outcome.due)) return outcome;
  const due = [...(outcome.due as { route: string; event: number }[])];
  return { ...outcome, due: due.sort((a, b) => a.event - b.event || (a.route < b.route ? -1 : 1)) };
}
