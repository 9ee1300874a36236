import fc from "fast-check";
import { expect, test } from "vitest";
import { soakSize } from "../harness/soak.ts";
import type { ContractStore, ContractSubject, OpenSubject } from "./contract-store.ts";
import { accept, dead, delivered, later, openWith, settle } from "./contract-tools.ts";
import { anEvent, rulesFor, start, unreadable } from "./store-events.ts";

const day = 86_400_000;
const routes = [
  { name: "ours", match: { tracked: true } },
  { name: "failures", match: { statuses: ["failed"] }, emit: "transitions" },
  { name: "loose", match: { events: ["automation.*"] }, order: "none" },
  { name: "holding", match: { events: ["message.*"], statuses: ["sent"] }, truncated: "hold" },
  { name: "waits", match: { events: ["message.held"] }, truncated: "hold" },
] as const;
const keep = {
  events: 3 * day,
  ignored: day,
  deliveries: 2 * day,
  messages: 4 * day,
  history: 400 * day,
};

/** Where a random life has come to. */
interface Life {
  now: number;
  store: ContractStore;
  readonly subject: ContractSubject;
  readonly ids: string[];
  given: number;
}

type Step = (life: Life) => Promise<unknown>;

const step = <T>(
  draw: fc.Arbitrary<T>,
  name: string,
  run: (life: Life, drawn: T) => Promise<unknown>,
) =>
  draw.map((drawn): { readonly run: Step; readonly toString: () => string } => ({
    run: (life) => run(life, drawn),
    toString: () => `${name}(${JSON.stringify(drawn)})`,
  }));

async function dueOf(
  { store, now }: Life,
  route: string,
  drawn: number,
): Promise<number | undefined> {
  const due = await store.due(route, now, 100);
  return due[drawn % Math.max(1, due.length)];
}

const wamid = fc.nat(5).map((n) => `w${n}`);
const routeName = fc.constantFrom(...routes.map(({ name }) => name));
const steps = fc.oneof(
  {
    weight: 6,
    arbitrary: step(
      fc.record({ wamid, status: fc.constantFrom("sent", "delivered", "read", "failed") }),
      "status",
      async (life, parts) => {
        life.given += 1;
        life.ids.push(`id ${life.given}`);
        await accept(life.store, { ...parts, id: `id ${life.given}`, receivedAt: life.now });
      },
    ),
  },
  {
    weight: 1,
    arbitrary: step(fc.nat(3), "run", async (life, run) => {
      life.given += 1;
      await accept(life.store, { runId: `run ${run}`, receivedAt: life.now });
    }),
  },
  {
    weight: 2,
    arbitrary: step(
      fc.constantFrom("message.held", "message.status", "account.note"),
      "truncated",
      async (life, event) => {
        life.given += 1;
        await accept(life.store, {
          event,
          receivedAt: life.now,
          data: { truncated: true, id: null, size: 9 },
        });
      },
    ),
  },
  {
    weight: 1,
    arbitrary: step(fc.nat(), "duplicate", async (life, drawn) => {
      const { store, ids, now } = life;
      const id = ids[drawn % Math.max(1, ids.length)];
      if (id === undefined) return;
      const outcome = await store.accept(
        anEvent({ id, receivedAt: now, secret: "another", data: { other: drawn % 2 } }),
      );
      // Retention has taken the first one away.
      if (outcome.result === "accepted") life.given += 1;
    }),
  },
  {
    weight: 1,
    arbitrary: step(fc.constant(null), "quarantine", async (life) => {
      life.given += 1;
      await life.store.quarantine(unreadable(anEvent({ receivedAt: life.now })));
    }),
  },
  {
    weight: 2,
    arbitrary: step(wamid, "register", ({ store, now }, known) =>
      store.register([{ account: "main", wamid: known }], now),
    ),
  },
  {
    weight: 6,
    arbitrary: step(
      fc.record({ routeName, drawn: fc.nat(), to: fc.constantFrom("delivered", "dead", "later") }),
      "attempt",
      async (life, { routeName: route, drawn, to }) => {
        const event = await dueOf(life, route, drawn);
        const settled = to === "delivered" ? delivered : to === "dead" ? dead : later(life.now + 5);
        if (event !== undefined) await settle(life.store, route, event, settled, { at: life.now });
      },
    ),
  },
  {
    weight: 1,
    arbitrary: step(
      fc.record({ routeName, drawn: fc.nat(40) }),
      "retry",
      ({ store, now }, { routeName: route, drawn }) => store.retry(drawn, route, now),
    ),
  },
  {
    weight: 1,
    arbitrary: step(
      fc.constantFrom<("dead" | "delivered")[]>(["dead"], ["dead", "delivered"]),
      "replay",
      ({ store, now }, states) => store.replay({ states }, now),
    ),
  },
  {
    weight: 2,
    arbitrary: step(fc.constantFrom(1, 30_000, 61_000, day, 3 * day), "wait", async (life, ms) => {
      life.now += ms;
      // As a relay that runs does at once.
      while ((await life.store.expireParked(life.now, 10)) > 0);
    }),
  },
  {
    weight: 1,
    arbitrary: step(fc.integer({ min: 1, max: 40 }), "purge", async ({ store, now }, times) => {
      for (let each = 0; each < times; each += 1)
        if ((await store.purge(now, keep, 7)).done) return;
    }),
  },
  {
    weight: 1,
    arbitrary: step(fc.boolean(), "hydrate", async ({ store, now }, isAll) => {
      const pass = await store.beginPass("main", now);
      if (pass === null) return;
      await store.settleCovered(
        pass,
        { reason: isAll ? null : "too-long", unknown: 1, receivedBy: Number.MAX_SAFE_INTEGER },
        now,
        100,
      );
      await store.endPass(pass);
    }),
  },
  {
    weight: 1,
    arbitrary: step(fc.constant(null), "reopen", async (life) => {
      life.store = await life.subject.reopen();
    }),
  },
);

export function auditContract(open: OpenSubject): void {
  test("an empty store balances", async () => {
    const { store } = await openWith(open, routes);
    expect(await store.audit(start)).toMatchObject({
      balanced: true,
      events: { received: 0 },
      days: [],
      routes: [],
      offenders: [],
    });
  });

  test("random operations keep the sums balanced, and every event has a disposition", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(steps, { maxLength: 60, size: "max" }), async (life) => {
        const subject = await open(rulesFor(routes));
        const state: Life = { now: start, store: subject.store, subject, ids: [], given: 0 };
        try {
          for (const { run } of life) {
            await run(state);
            const report = await state.store.audit(state.now);
            expect(report.offenders).toEqual([]);
            const { received, duplicates: _, conflicts: __, ...words } = report.events;
            expect(received).toBe(Object.values(words).reduce((sum, count) => sum + count, 0));
            expect(received + report.gone.deleted).toBe(state.given);
            expect([report.balanced, words.unaccounted, report.gone.missing]).toEqual([true, 0, 0]);
            const { planned, ...states } = report.deliveries;
            expect(planned).toBe(Object.values(states).reduce((sum, count) => sum + count, 0));
          }
        } finally {
          await subject.end();
        }
      }),
      { numRuns: soakSize(15, 40) },
    );
  });

  test("sums per day of acceptance and source; a filter leaves the rest out", async () => {
    const { store } = await openWith(open, routes, { unknown: "ignore" });
    const next = start + day;
    await accept(store, { wamid: "w1", status: "failed", receivedAt: start });
    await accept(store, { wamid: "w1", receivedAt: start, source: "second" });
    await accept(store, { wamid: "w2", status: "read", receivedAt: next });
    await accept(store, { event: "account.note", receivedAt: next });
    const report = await store.audit(next);
    const none = { routed: 0, filtered: 0, ignored: 0 };
    expect(report.days).toMatchObject([
      { day: "2027-01-15", source: "main", received: 1, ...none, routed: 1 },
      { day: "2027-01-15", source: "second", received: 1, ...none, routed: 1 },
      { day: "2027-01-16", source: "main", received: 2, ...none, ignored: 1, filtered: 1 },
    ]);
    expect(report.routes).toMatchObject([
      { route: "failures", planned: 1, waiting: 1 },
      { route: "holding", planned: 1, waiting: 1 },
    ]);
    const partOf = async (filter: { from?: number; to?: number; source?: string }) =>
      (await store.audit(next, filter)).events.received;
    expect(await partOf({ from: next })).toBe(2);
    expect(await partOf({ to: next })).toBe(2);
    expect(await partOf({ source: "second" })).toBe(1);
    expect(await partOf({ from: next, source: "second" })).toBe(0);
    expect(await partOf({ source: "never seen" })).toBe(0);
  });
}
