import fc from "fast-check";
import { expect, test } from "vitest";
import type { DeliveryState } from "../../src/model/states.ts";
import { soakSize } from "../harness/soak.ts";
import type { OpenSubject } from "./contract-store.ts";
import { commandsOf, type Real, settle } from "./contract-tools.ts";
import { anEvent, rulesFor, start } from "./store-events.ts";

const routes = [{ name: "ordered" }, { name: "loose", order: "none" }] as const;
type Route = (typeof routes)[number]["name"];

interface ModelDelivery {
  readonly route: Route;
  readonly event: number;
  readonly message: number;
  state: DeliveryState;
  nextAt: number;
  attempts: number;
  spent: number;
  replays: number;
  cause: string | null;
}

/** The delivery queue as a list that anybody can check by eye. */
interface Model {
  now: number;
  readonly deliveries: ModelDelivery[];
}

const isOpen = ({ state }: ModelDelivery) => state === "waiting" || state === "held";
const openBeside = (model: Model, of: Pick<ModelDelivery, "route" | "message" | "event">) =>
  of.route === "ordered" &&
  model.deliveries.some(
    (other) =>
      other.route === of.route &&
      other.message === of.message &&
      other.event !== of.event &&
      isOpen(other),
  );
const dueOn = (model: Model, route: Route) =>
  model.deliveries
    .filter(
      (delivery) =>
        delivery.route === route && delivery.state === "waiting" && delivery.nextAt <= model.now,
    )
    .sort((a, b) => a.nextAt - b.nextAt || a.event - b.event);

/** When the first of those that are due at `from` or later is due. */
function firstOn(model: Model, name: string, from: number): number | null {
  const times = model.deliveries.flatMap(({ route, state, nextAt }) =>
    route === name && state === "waiting" && nextAt >= from ? nextAt : [],
  );
  return times.length === 0 ? null : Math.min(...times);
}

/** One of them by a number that was drawn without knowing how many there are. */
const pick = <T>(list: readonly T[], drawn: number): T => list[drawn % list.length] as T;

/** Settled ones wait again: at once, or behind what is open of the same message. */
function requeue(model: Model, delivery: ModelDelivery): void {
  const held = openBeside(model, delivery);
  Object.assign(delivery, {
    state: held ? "held" : "waiting",
    nextAt: model.now,
    spent: 0,
    replays: delivery.replays + 1,
    cause: null,
  });
}

async function check(model: Model, { store }: Real): Promise<void> {
  for (const { name } of routes) {
    const due = dueOn(model, name).map(({ event }) => event);
    for (const limit of [1_000, 2])
      expect(await store.due(name, model.now, limit)).toEqual(due.slice(0, limit));
    expect(await store.nextDueAt(name, model.now)).toBe(firstOn(model, name, model.now + 1));
  }
  const names = routes.map(({ name }) => name);
  for (const from of [0, model.now])
    expect(await store.nextDue(names, from)).toEqual(
      new Map(names.map((route) => [route, firstOn(model, route, from)])),
    );
  const groups = (await store.read.groupDeliveries({})).map(({ route, state, cause, count }) => ({
    route,
    state,
    cause,
    count,
  }));
  expect(groups.toSorted(byName)).toEqual(groupsOf(model).toSorted(byName));
  for (const { route, event, state, attempts, spent, replays, cause } of model.deliveries) {
    const loaded = await store.load(route, event);
    if (state === "waiting") expect(loaded).toMatchObject({ attempts, spent, replays });
    else expect(loaded).toBeNull();
    expect(await store.delivery(event, route)).toMatchObject({ state, attempts, replays, cause });
  }
}

type Group = Pick<ModelDelivery, "route" | "state" | "cause"> & { readonly count: number };
const nameOf = ({ route, state, cause }: Omit<Group, "count">): string =>
  `${route} ${state} ${cause}`;
const byName = (
  a: { [Field in keyof Group]: unknown },
  b: { [Field in keyof Group]: unknown },
): number => (nameOf(a as Group) < nameOf(b as Group) ? -1 : 1);

function groupsOf({ deliveries }: Model): Group[] {
  const undelivered = deliveries.filter(({ state }) => state !== "delivered");
  return [...Map.groupBy(undelivered, nameOf).values()].map((some) => {
    const [{ route, state, cause }] = some as [ModelDelivery];
    return { route, state, cause, count: some.length };
  });
}

const { command, passed, reopened } = commandsOf(check);

const accepted = fc.nat(3).map((message) =>
  command(`accept(${message})`, async (model, { store }) => {
    const outcome = await store.accept(anEvent({ wamid: `w${message}`, receivedAt: model.now }));
    for (const { name: route } of routes) {
      const planned = { route, event: outcome.seq, message };
      const held = openBeside(model, planned);
      expect(outcome).toMatchObject({ result: "accepted" });
      expect("due" in outcome && outcome.due.some((due) => due.route === route)).toBe(!held);
      model.deliveries.push({
        ...planned,
        state: held ? "held" : "waiting",
        nextAt: model.now,
        attempts: 0,
        spent: 0,
        replays: 0,
        cause: null,
      });
    }
  }),
);

const attempted = fc
  .record({
    drawn: fc.nat(),
    route: fc.constantFrom<Route>("ordered", "loose"),
    to: fc.constantFrom("delivered", "dead", "waiting"),
    wait: fc.nat(3),
    failure: fc.constantFrom(500, 503),
  })
  .map(({ drawn, route, to, wait, failure }) =>
    command(
      `attempt(${route}, ${drawn}) → ${to === "delivered" ? "" : `${failure}, `}${to}${to === "waiting" ? ` in ${wait}` : ""}`,
      async (model, { store }) => {
        const delivery = pick(dueOn(model, route), drawn);
        const settled =
          to === "delivered"
            ? ({ to } as const)
            : to === "dead"
              ? ({ to, reason: "enough" } as const)
              : ({ to: "waiting", nextAt: model.now + wait } as const);
        const released = await settle(store, route, delivery.event, settled, {
          at: model.now,
          status: to === "delivered" ? 200 : failure,
        });
        if (to !== "delivered") delivery.cause = String(failure);
        delivery.attempts += 1;
        delivery.spent += 1;
        delivery.state = settled.to;
        delivery.nextAt = model.now + wait;
        const isFree =
          settled.to !== "waiting" &&
          route === "ordered" &&
          !model.deliveries.some(
            (other) =>
              other.route === route &&
              other.message === delivery.message &&
              other.state === "waiting",
          );
        const next = isFree
          ? model.deliveries
              .filter(
                (other) =>
                  other.route === route &&
                  other.message === delivery.message &&
                  other.state === "held",
              )
              .sort((a, b) => a.event - b.event)[0]
          : undefined;
        expect(released).toBe(next?.event ?? null);
        if (next !== undefined) Object.assign(next, { state: "waiting", nextAt: model.now });
      },
      (model) => dueOn(model, route).length > 0,
    ),
  );

const retried = fc.nat().map((drawn) =>
  command(
    `retry(${drawn})`,
    async (model, { store }) => {
      const delivery = pick(model.deliveries, drawn);
      const answer = await store.retry(delivery.event, delivery.route, model.now);
      if (delivery.state === "waiting") delivery.nextAt = model.now;
      else if (delivery.state !== "held") requeue(model, delivery);
      expect(answer?.state).toBe(delivery.state);
      expect(answer?.due?.event).toBe(delivery.state === "waiting" ? delivery.event : undefined);
    },
    (model) => model.deliveries.length > 0,
  ),
);

const replayed = fc
  .constantFrom<("delivered" | "dead")[]>(["dead"], ["delivered"], ["dead", "delivered"])
  .map((states) =>
    command(`replay(${states})`, async (model, { store }) => {
      const meant = model.deliveries
        .filter(({ state }) => (states as string[]).includes(state))
        .sort((a, b) => a.event - b.event || 0);
      const { replayed: count } = await store.replay({ states }, model.now);
      expect(count).toBe(meant.length);
      for (const delivery of meant) requeue(model, delivery);
    }),
  );

const hastened = fc.option(fc.constantFrom("500", "503", null), { nil: undefined }).map((cause) =>
  command(`replay(waiting, ${cause})`, async (model, { store }) => {
    const meant = model.deliveries.filter(
      (each) =>
        each.state === "waiting" &&
        each.nextAt > model.now &&
        (cause === undefined || each.cause === cause),
    );
    const { replayed: count } = await store.replay({ states: ["waiting"], cause }, model.now);
    expect(count).toBe(meant.length);
    for (const delivery of meant) delivery.nextAt = model.now;
  }),
);

export function queueModelContract(open: OpenSubject): void {
  test("the delivery queue equals a plain list after random operations", async () => {
    const commands = fc.commands(
      [
        accepted,
        accepted,
        attempted,
        attempted,
        attempted,
        retried,
        replayed,
        hastened,
        passed,
        reopened,
      ],
      {
        maxCommands: 40,
      },
    );
    await fc.assert(
      fc.asyncProperty(commands, async (sequence) => {
        const subject = await open(rulesFor(routes));
        try {
          await fc.asyncModelRun(
            () => ({
              model: { now: start, deliveries: [] },
              real: { subject, store: subject.store },
            }),
            sequence,
          );
        } finally {
          await subject.end();
        }
      }),
      { numRuns: soakSize(24, 60) },
    );
  });
}
