import fc from "fast-check";
import { expect } from "vitest";
import type { DeliveryView } from "../../src/model/answers/events.ts";
import { isProxyRoute } from "../../src/model/delivery.ts";
import type { ListenPage } from "../../src/model/endpoints/stream.ts";
import { maskId, maskWamid, shownDeliveryId } from "../../src/model/mask.ts";
import { deliveryStates, dispositions } from "../../src/model/states.ts";
import type { Wanted } from "../../src/store/port.ts";
import type { DeliveryFilter } from "../../src/store/read/deliveries.ts";
import type { StoreReading } from "../../src/store/read/reading.ts";
import { routes } from "./both-engines-draws.ts";
import type { Engine } from "./both-engines-steps.ts";
import { start } from "./store-events.ts";

const everything = { after: 0, before: Number.MAX_SAFE_INTEGER, limit: 1_000 };
const orNot = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined });
const moment = fc.nat(600_000).map((ms) => start + ms);

/** What is asked of both; drawn, so that criteria meet in many ways. */
const question = fc.record({
  events: fc.record({
    event: orNot(fc.constantFrom("message.status", "automation.failed", "never")),
    source: orNot(fc.constantFrom("main", "second", "never")),
    account: orNot(fc.constantFrom("main", "other")),
    status: orNot(fc.constantFrom("sent", "failed")),
    disposition: orNot(fc.constantFrom(...dispositions)),
    errorCode: orNot(fc.constantFrom("131026", "never")),
    wamid: orNot(fc.constantFrom("wamid.0", "wamid.1", "never")),
    about: orNot(
      fc.record({
        seqs: fc.array(fc.nat(60), { maxLength: 3 }),
        subjects: fc.array(
          fc.constantFrom(
            { type: "message", account: "main", key: "wamid.0" } as const,
            { type: "run", account: "main", key: "run-1" } as const,
            { type: "message", account: "other", key: "never" } as const,
          ),
          { maxLength: 2 },
        ),
        reference: orNot(fc.constantFrom("reference-0", "reference-1")),
      }),
    ),
    from: orNot(moment),
    to: orNot(moment),
    before: orNot(fc.nat(60)),
    after: orNot(fc.nat(60)),
  }),
  deliveries: fc.record({
    route: orNot(fc.constantFrom(...routes.map(({ name }) => name), "proxy:main", "never")),
    state: orNot(fc.constantFrom(...deliveryStates)),
    cause: orNot(fc.constantFrom("503", "timeout", "never", null)),
    errorCode: orNot(fc.constantFrom("131026", "never")),
    from: orNot(moment),
    to: orNot(moment),
    event: fc.option(fc.nat(60), { nil: undefined, freq: 5 }),
    after: orNot(fc.nat(60)),
  }),
  messages: fc.record({
    account: orNot(fc.constantFrom("main", "never")),
    status: orNot(fc.constantFrom("sent", "read")),
    reference: orNot(fc.constantFrom("reference-0", "reference-1", "never")),
    prefix: orNot(fc.constantFrom("refer", "reference-1", "eference")),
    errorCode: orNot(fc.constantFrom("131026", "never")),
    seen: orNot(fc.boolean()),
  }),
  limit: fc.integer({ min: 1, max: 8 }),
  time: moment,
  from: fc.nat(60),
});
export type Question = typeof question extends fc.Arbitrary<infer T> ? T : never;

export const questions = fc.array(question, { minLength: 4, maxLength: 8 });

/** Each engine has numbers of its own. */
function unnumbered<V extends { readonly seq: number }>({ seq: _, ...view }: V): Omit<V, "seq"> {
  return view;
}

/**
 * Everything a reader says of a store that no question is needed for; times and seqs as they are,
 * numbers of messages left out.
 */
export async function wholeOf(read: StoreReading): Promise<object> {
  const events = await read.listEvents({ limit: 1_000 });
  const details = await Promise.all(events.map(({ seq }) => read.getEvent(seq)));
  const deliveries = await read.listDeliveries({ limit: 1_000 });
  const messages = (await read.listMessages(everything)).map(unnumbered);
  const runs = (await read.listRuns(everything)).map(unnumbered);
  const counts = Object.fromEntries(
    await read.countDeliveries([...events.map(({ seq }) => seq), 999_999]),
  );
  expect(
    Object.fromEntries(
      Object.entries(counts).map(([event, { deliveries: states }]) => [event, states]),
    ),
  ).toEqual(tallyOf(deliveries));
  const subjects = [...messages.map(({ account, wamid }) => ["message", account, wamid] as const)];
  for (const { account, runId } of runs) subjects.push(["run", account, runId] as never);
  return {
    events,
    details,
    bounds: await read.eventBounds(),
    byId: await Promise.all(
      events.map(async ({ id }) => [...(await read.seqsOf(id ?? "none"))].sort()),
    ),
    deliveries: inOrder(deliveries),
    counts,
    found: await Promise.all(deliveries.map(({ id }) => read.findDelivery(id))).then(inOrder),
    attempts: await Promise.all(inOrder(deliveries).map((delivery) => read.attemptsOf(delivery))),
    held: await Promise.all(
      inOrder(deliveries.filter(({ state }) => state === "held")).map(({ event, route }) =>
        read.heldBehind(event, route),
      ),
    ),
    stopped: await Promise.all(routes.map(({ name }) => read.stopReason(name))),
    messages,
    runs,
    seen: await Promise.all(
      ["wamid.0", "wamid.1", "wamid.2"].map(async (name) =>
        sorted((await read.findMessages(name)).map(unnumbered)),
      ),
    ),
    masked: await Promise.all(
      ["wamid.0", "wamid.1"].map(async (name) =>
        sorted((await read.findMessages(maskWamid(name))).map(unnumbered)),
      ),
    ),
    maskedId: (await read.findMessages(maskId("message", "id-main-0"))).map(unnumbered),
    maskedEvents: await Promise.all(
      events.map(async ({ id }) => [...(await read.seqsOf(maskId("event", id ?? "none")))].sort()),
    ),
    maskedDeliveries: await Promise.all(
      deliveries.map(({ id }) => read.findDelivery(shownDeliveryId(id))),
    ).then(inOrder),
    maskedRun: (await read.listRuns({ ...everything, runId: maskId("run", "run-1") })).map(
      unnumbered,
    ),
    byService: await Promise.all(
      ["id-main-0", "id-other-1", "reference-0", "reference-1", "never"].map(async (name) =>
        (await read.findMessages(name)).map(unnumbered),
      ),
    ),
    stories: await Promise.all(
      subjects.map(([type, account, key]) => read.eventsOf(type, account, key, 0, 1_000)),
    ),
    ends: await read.listen.ends(),
    secretUses: sorted(await read.secretUses()),
    backlog: sorted(await read.backlog()),
    quarantine: await read.quarantine(),
  };
}

function tallyOf(deliveries: readonly DeliveryView[]): Record<string, object> {
  const byEvent = Object.groupBy(deliveries, ({ event }) => event);
  return Object.fromEntries(
    Object.entries(byEvent).map(([event, some = []]) => {
      const states = deliveryStates.map(
        (state) => [state, some.filter((one) => one.state === state).length] as const,
      );
      return [event, Object.fromEntries(states.filter(([, count]) => count > 0))];
    }),
  );
}

export async function answerOf(read: StoreReading, question: Question): Promise<object> {
  const { limit, time, from } = question;
  const messages = { ...everything, ...question.messages };
  const { errorCode: _, seen: __, ...runs } = messages;
  return {
    events: await read.listEvents({ ...question.events, limit }),
    latest: await read.latestReceived(from, from + 20),
    deliveries: inOrder(await allPages(read, question.deliveries, limit)),
    groups: await groupsOf(read, question.deliveries),
    messages: (await read.listMessages({ ...messages, limit })).map(unnumbered),
    runs: (await read.listRuns({ ...runs, limit })).map(unnumbered),
    run: (await read.listRuns({ ...runs, runId: "run-1" })).map(unnumbered),
    seqBefore: await read.listen.seqBefore(time),
    heard: await hear(read, from, wantedOf(question)),
  };
}

/** Page after page, each from the place where the last one ended. */
async function allPages(
  read: StoreReading,
  filter: Partial<DeliveryFilter>,
  limit: number,
): Promise<DeliveryView[]> {
  const found: DeliveryView[] = [];
  for (let before: DeliveryFilter["before"]; ; ) {
    const page = await read.listDeliveries({ ...filter, before, limit });
    found.push(...page);
    const last = page.at(-1);
    if (last === undefined || page.length < limit) return found;
    before = last;
  }
}

/** The groups, which are the sums of the list. */
async function groupsOf(
  read: StoreReading,
  { route, state, errorCode, from, to }: Partial<DeliveryFilter>,
): Promise<object[]> {
  const groups = await read.groupDeliveries({ route, state, errorCode, from, to });
  const listed = (
    await read.listDeliveries({ route, state, errorCode, from, to, limit: 1_000 })
  ).filter((one) => one.state !== "delivered");
  const tally = Object.groupBy(listed, (one) => `${one.route} ${one.state} ${one.cause}`);
  const counts = Object.fromEntries(
    groups.map((group) => [`${group.route} ${group.state} ${group.cause}`, group.count]),
  );
  expect(counts).toEqual(
    Object.fromEntries(Object.entries(tally).map(([name, some = []]) => [name, some.length])),
  );
  return sorted(groups);
}

function wantedOf({ events, time }: Question): Wanted {
  return {
    row: ({ source, tracked }) =>
      (events.source === undefined || source === events.source) &&
      (events.status === undefined || tracked),
    event: time % 2 === 0 ? null : (event) => event.content().body.length % 2 === 0,
  };
}

/** All that is heard from a seq on, with how pages were cut left out. */
async function hear(read: StoreReading, from: number, wanted: Wanted): Promise<unknown> {
  const heard: unknown[] = [];
  let missing = 0;
  for (let through = from; ; ) {
    const open = await read.listen.page(through, wanted);
    const page = open((one: ListenPage) => {
      for (const { content, ...event } of one.events) heard.push({ ...event, ...content() });
      return one;
    });
    missing += page.missing?.count ?? 0;
    through = page.through;
    if (page.atEnd) return { heard, missing, through };
  }
}

/** Deliveries of one event are in an order of each engine's own. */
function inOrder<T extends { event: number; route: string } | null>(
  deliveries: readonly T[],
): NonNullable<T>[] {
  const found = deliveries.filter((one) => one !== null);
  for (const [index, one] of found.entries()) {
    const before = found[index - 1];
    if (before !== undefined) expect(before.event).toBeGreaterThanOrEqual(one.event);
  }
  return [...found].sort((a, b) => b.event - a.event || (a.route < b.route ? -1 : 1));
}

const sorted = <T>(list: readonly T[]): T[] =>
  [...list].sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));

/** What goes out, as whoever sends it gets it. */
export async function loadsOf({ store }: Engine): Promise<unknown> {
  const waiting = inOrder(await store.read.listDeliveries({ state: "waiting", limit: 1_000 }));
  // No dispatcher loads a proxied exchange.
  return Promise.all(
    waiting
      .filter(({ route }) => !isProxyRoute(route))
      .map(({ route, event }) => store.load(route, event)),
  );
}
