// Slow: it makes a file of each engine and a database for each of its runs.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { subjects } from "../../src/store/schema/tables.ts";
import { openSqliteStore } from "../../src/store/sqlite/open.ts";
import type { QueuedDelivery } from "../../src/store/work/due.ts";
import { createShared, type OneStore, openSqlite, settlementOf } from "./one-store.ts";
import { anEvent, rulesFor, start } from "./store-events.ts";

const routes = [{ name: "crm" }, { name: "log", order: "none" as const }, { name: "moves", emit: "transitions" as const, firstWait: 500 }];
const rules = rulesFor(routes, { unknown: "forward" });

const event = fc.record({
  id: fc.integer({ min: 0, max: 12 }),
  wamid: fc.integer({ min: 0, max: 2 }),
  status: fc.constantFrom("sent", "delivered", "read", "failed", "played"),
  other: fc.boolean(),
});
const step = fc.oneof(
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("accept" as const), events: fc.array(event, { minLength: 1, maxLength: 6 }) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("settle" as const),
      to: fc.array(fc.constantFrom("delivered" as const, "waiting" as const, "dead" as const), { minLength: 1, maxLength: 4 }),
      route: fc.constantFrom(...routes.map(({ name }) => name)),
    }),
  },
);

/** What both engines say of a due delivery. */
const shown = ({ lane: _, dueAt: __, cause: ___, ...delivery }: QueuedDelivery) => delivery;

test("random steps have the same outcomes on the old SQLite engine, the new one and PostgreSQL", { tags: ["slow"] }, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 14 }), async (steps) => {
      const folder = mkdtempSync(join(tmpdir(), "wamid-relay-old-"));
      const old = openSqliteStore(join(folder, "relay.db"), rules, { committed() {}, failed() {} });
      await using sqlite = await openSqlite(rules);
      await using shared = await createShared(18);
      const stores: readonly OneStore[] = [sqlite, await shared.open(rules)];
      try {
        let now = start;
        for (const one of steps) {
          now += 1_000;
          if (one.kind === "accept") {
            const events = one.events.map(({ id, wamid, status, other }) =>
              anEvent({ id: `event-${id}`, wamid: `wamid.${wamid}`, status, receivedAt: now, data: { other } }),
            );
            const known = await Promise.all(events.map((each) => old.accept(each)));
            for (const store of stores) {
              const outcomes = await store.accept(events);
              expect(
                outcomes.map((outcome) =>
                  outcome.result === "accepted" ? { ...outcome, due: outcome.due.map(({ lane: _, ...due }) => due) } : outcome,
                ),
              ).toEqual(known);
            }
          } else {
            const dueOld = old.due(one.route, now, one.to.length).map((seq) => old.load(one.route, seq));
            const due = await Promise.all(stores.map((store) => store.due(one.route, now, one.to.length)));
            for (const list of due) expect(list.map(shown)).toEqual(dueOld);
            const settlements = due.map((list) => list.map((delivery, place) => settlementOf(delivery, one.to[place] ?? "delivered", now)));
            for (const settlement of settlements[0] ?? []) await old.settle(settlement);
            for (const [place, store] of stores.entries()) await store.settle(settlements[place] ?? []);
          }
          for (const { name } of routes) {
            const next = old.nextDueAt(name, now);
            for (const store of stores) expect(await store.nextDueAt(name, now)).toBe(next);
          }
        }
        const [one, other] = await Promise.all(stores.map((store) => store.rows(subjects)));
        expect(other).toEqual(one);
        for (const row of one ?? [])
          expect(await old.messageState("main", row.name as never)).toMatchObject({ status: row.status, times: JSON.parse(row.times) });
      } finally {
        await old.close();
        rmSync(folder, { recursive: true });
      }
    }),
    { numRuns: 12 },
  );
});
