import { expect } from "vitest";
import { isProxyRoute, proxyRoute, type Settlement } from "../../src/model/delivery.ts";
import type { MaybePromise } from "../../src/model/maybe-promise.ts";
import type { DeliveryState } from "../../src/model/states.ts";
import type { ReplayCursor, ReplayFound, Rules } from "../../src/store/port.ts";
import { stats } from "../../src/store/read/stats.ts";
import { routes, type Step, type Timed } from "./both-engines-draws.ts";
import type { OpenStore } from "./one-store.ts";
import { anEvent, rulesFor, unreadable } from "./store-events.ts";
import { contracted, storeOn } from "./store-on-database.ts";

/** A store on either database, as far as both are compared. */
export type Engine = Awaited<ReturnType<typeof openEngine>>;

export async function openEngine(open: OpenStore, rules: Rules) {
  const opened = await open(rules);
  const { load, settle } = contracted(opened, rules);
  return {
    store: { ...storeOn(opened, rules), load },
    settle,
    stats: async () => opened.read(stats()),
    end: async () => opened[Symbol.asyncDispose](),
  };
}

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

/** What was accepted so far, for what comes again. */
export type Known = { readonly event: ReturnType<typeof anEvent> }[];

/** Does the same on all; what they answer must be the same too. */
export async function doOnBoth(
  engines: readonly [Engine, ...Engine[]],
  rules: SwitchedRules,
  step: Timed,
  now: number,
  known: Known,
): Promise<void> {
  const [model] = engines;
  const both = async <T>(run: (engine: Engine) => Promise<T>): Promise<void> => {
    const outcomes = await Promise.all(
      engines.map((engine) => run(engine).catch((error: Error) => ({ error: error.message }))),
    );
    for (const outcome of outcomes.slice(1))
      expect(comparable(outcome)).toEqual(comparable(outcomes[0]));
  };
  switch (step.do) {
    case "accept": {
      const before =
        step.again === "no" || known.length === 0
          ? null
          : (known[step.drawn % known.length]?.event ?? null);
      const event =
        before === null
          ? eventOf(step, now)
          : step.again === "same"
            ? { ...before, receivedAt: now }
            : otherBytes(before, now);
      if (before === null) known.push({ event });
      const proxied = before === null && step.proxied ? proxyRoute(step.source) : null;
      await both(({ store }) => store.accept(event, proxied));
      break;
    }
    case "quarantine": {
      const quarantined = unreadable(anEvent({ source: step.source, receivedAt: now }));
      await both(({ store }) => store.quarantine(quarantined));
      break;
    }
    case "register": {
      const { of, account, reference, id } = step;
      const registration = {
        account,
        wamid: wamidOf(of),
        ...(reference === null
          ? {}
          : { reference: `reference-${reference}`, metadata: { n: reference } }),
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
          ? ({
              type: "run",
              runId: `run-${of}`,
              reference: "reference-1",
              metadata: { n: of },
            } as const)
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
        const held = await store.beginSend(key, {
          fingerprint: "f",
          resend: 0,
          about: "",
          at: now,
        });
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
          (cursor) => store.findBackfill(step, cursor, 7),
          ({ found }) => store.backfill([...new Set(found.map(({ event }) => event))], step, now),
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
  look: (cursor: ReplayCursor) => MaybePromise<ReplayFound>,
  act: (found: ReplayFound) => Promise<{ replayed: number; due: readonly unknown[] }>,
): Promise<{ replayed: number; due: unknown[] }> {
  const sum = { replayed: 0, due: [] as unknown[] };
  for (
    let cursor: ReplayCursor | null = { since, event: 0, lane: 0, route: "" };
    cursor !== null;
  ) {
    const found: ReplayFound = await look(cursor);
    const { replayed, due } = await act(found);
    sum.replayed += replayed;
    sum.due.push(...due);
    cursor = found.cursor;
  }
  return sum;
}

const wamidOf = (of: number): string => `wamid.${of}`;

function eventOf(
  { about, of, account, source, status, errorCode }: Extract<Step, { do: "accept" }>,
  receivedAt: number,
) {
  const parts = { account, source, receivedAt, at: receivedAt - 5 };
  if (about === "truncated")
    return anEvent({
      ...parts,
      event: "message.status",
      data: { truncated: true, id: null, size: 9 },
    });
  if (about === "nothing") return anEvent({ ...parts, event: "automation.requested" });
  if (about === "message") return anEvent({ ...parts, wamid: wamidOf(of), status, errorCode });
  return anEvent({
    ...parts,
    runId: `run-${of}`,
    event: status === "failed" ? "automation.failed" : "automation.completed",
  });
}

function otherBytes(event: ReturnType<typeof anEvent>, receivedAt: number) {
  return { ...event, receivedAt, body: Buffer.concat([event.body, Buffer.from(" ")]) };
}

async function drawn({ store }: Engine, number: number, states: readonly DeliveryState[]) {
  const all = (await store.read.listDeliveries({ limit: 1_000 })).filter(({ state }) =>
    states.includes(state),
  );
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
    attempt: {
      number: attempts + 1,
      at,
      tookMs: 3,
      result,
      response: answer === "nothing" ? null : Buffer.from(`answer\n${status}`),
    },
    settled,
    at,
    ...(stop ? { stop: "gone" } : {}),
  };
}

/**
 * What becomes due is a set: engines name it in orders of their own, and number messages in their
 * own way.
 */
function comparable(outcome: unknown): unknown {
  if (typeof outcome !== "object" || outcome === null || !("due" in outcome)) return outcome;
  const { due, ...rest } = JSON.parse(JSON.stringify(outcome), (key, value) =>
    key === "lane" ? undefined : value,
  );
  if (!Array.isArray(due)) return { ...rest, due };
  return { ...rest, due: due.sort((a, b) => a.event - b.event || (a.route < b.route ? -1 : 1)) };
}
