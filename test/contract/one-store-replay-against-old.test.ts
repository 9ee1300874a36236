// Slow: it makes a file of each engine and a database for each of its runs.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { dispositions } from "../../src/model/states.ts";
import type { Rules } from "../../src/store/rules.ts";
import { counters, events, subjects } from "../../src/store/schema/tables.ts";
import { openSqliteStore } from "../../src/store/sqlite/open.ts";
import type { QueuedDelivery } from "../../src/store/work/due.ts";
import { createShared, type OneStore, openSqlite, settlementOf } from "./one-store.ts";
import { createReplaySteps, deliveriesOf, deliveriesOfOld, replayActions } from "./one-store-replay-steps.ts";
import { anEvent, rulesFor, start } from "./store-events.ts";

const routes = [{ name: "crm" }, { name: "log", order: "none" as const }, { name: "moves", emit: "transitions" as const, firstWait: 500 }];
const fewer = [{ name: "crm", match: { statuses: ["read", "failed"] } }];
/** A reload changes between them, so that a backfill finds events that no route took. */
const settings = [rulesFor(fewer, { unknown: "forward" }), rulesFor(routes, { unknown: "forward" })] as const;

const event = fc.record({
  id: fc.integer({ min: 0, max: 12 }),
  wamid: fc.integer({ min: 0, max: 2 }),
  status: fc.constantFrom("sent", "delivered", "read", "failed", "played"),
  other: fc.boolean(),
});
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("accept" as const), events: fc.array(event, { minLength: 1, maxLength: 6 }) }) },
  {
    weight: 9,
    arbitrary: fc.record({
      kind: fc.constant("settle" as const),
      to: fc.array(fc.constantFrom("delivered" as const, "waiting" as const, "dead" as const), { minLength: 1, maxLength: 4 }),
      route: fc.constantFrom(...routes.map(({ name }) => name)),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("quarantine" as const), parts: event }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("reload" as const), to: fc.constantFrom(0 as const, 1 as const) }) },
  { weight: 6, arbitrary: replayActions(routes.map(({ name }) => name)) },
);
type EventParts = typeof event extends fc.Arbitrary<infer Parts> ? Parts : never;
const made = ({ id, wamid, status, other }: EventParts, now: number) =>
  anEvent({ id: `event-${id}`, wamid: `wamid.${wamid}`, status, receivedAt: now, data: { other } });

/** What both engines say of a due delivery. */
const shown = ({ lane: _, dueAt: __, cause: ___, ...delivery }: QueuedDelivery) => delivery;

test("retries, replays, backfills and releases at random have the same outcomes on the old SQLite engine, the new one and PostgreSQL", {
  tags: ["slow"],
}, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 30, maxLength: 60, size: "max" }), async (steps) => {
      let current: Rules = settings[0];
      const rules: Rules = {
        ...settings[0],
        plan: (planned, tracking) => current.plan(planned, tracking),
        timing: (route) => current.timing(route),
      };
      const folder = mkdtempSync(join(tmpdir(), "wamid-relay-old-"));
      const old = openSqliteStore(join(folder, "relay.db"), rules, { committed() {}, failed() {} });
      await using sqlite = await openSqlite(rules);
      await using shared = await createShared(18);
      const stores: readonly OneStore[] = [sqlite, await shared.open(rules)];
      const runReplayStep = createReplaySteps(old, stores, rules);
      try {
        let now = start;
        for (const one of steps) {
          now += 300;
          if (one.kind === "accept") {
            const events = one.events.map((parts) => made(parts, now));
            const known = await Promise.all(events.map((each) => old.accept(each)));
            for (const store of stores) {
              const outcomes = await store.accept(events);
              expect(
                outcomes.map((outcome) =>
                  outcome.result === "accepted" ? { ...outcome, due: outcome.due.map(({ lane: _, ...due }) => due) } : outcome,
                ),
              ).toEqual(known);
            }
          } else if (one.kind === "settle") {
            const dueOld = old.due(one.route, now, one.to.length).map((seq) => old.load(one.route, seq));
            const due = await Promise.all(stores.map((store) => store.due(one.route, now, one.to.length)));
            for (const list of due) expect(list.map(shown)).toEqual(dueOld);
            const settlements = due.map((list) => list.map((delivery, place) => settlementOf(delivery, one.to[place] ?? "delivered", now)));
            for (const settlement of settlements[0] ?? []) await old.settle(settlement);
            for (const [place, store] of stores.entries()) await store.settle(settlements[place] ?? []);
          } else if (one.kind === "reload") current = settings[one.to];
          else {
            const [known, ...answers] = await runReplayStep(
              one.kind === "quarantine" ? { kind: one.kind, event: made(one.parts, now) } : one,
              now,
            );
            for (const answer of answers) expect(answer).toEqual(known);
          }
          for (const { name } of routes) {
            const next = old.nextDueAt(name, now);
            for (const store of stores) expect(await store.nextDueAt(name, now)).toBe(next);
          }
        }
        for (const store of stores) {
          expect(await deliveriesOf(store)).toEqual(deliveriesOfOld(old));
          const stored = await store.rows(events);
          for (const { seq, disposition, fault, duplicates, conflicts } of stored)
            expect(old.read.events.get(seq)).toMatchObject({ disposition: dispositions[disposition], fault, duplicates, conflicts });
          const counted = (await store.rows(counters)).filter(({ series }) => series === "events");
          for (const [code, word] of dispositions.entries()) {
            const sum = counted.filter(({ label }) => label === word).reduce((all, { n }) => all + n, 0);
            expect([word, sum]).toEqual([word, stored.filter(({ disposition }) => disposition === code).length]);
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
    { numRuns: 16 },
  );
});
