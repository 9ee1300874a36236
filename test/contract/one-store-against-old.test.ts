// Slow: it makes a file of each engine and a database for each of its runs.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { RelayError } from "../../src/model/errors.ts";
import type { KeptVerdict } from "../../src/model/plan.ts";
import { dispositions } from "../../src/model/states.ts";
import type { DueDelivery, Registered } from "../../src/store/rules.ts";
import type { RowOf } from "../../src/store/schema/table.ts";
import { counters, events, plans, polls, subjects } from "../../src/store/schema/tables.ts";
import { openSqliteStore } from "../../src/store/sqlite/open.ts";
import type { QueuedDelivery } from "../../src/store/work/due.ts";
import { rowsOf } from "../harness/store-rows.ts";
import { createShared, type OneStore, openSqlite, settlementOf } from "./one-store.ts";
import { anEvent, rulesFor, start } from "./store-events.ts";

const routes = [{ name: "crm" }, { name: "log", order: "none" as const }, { name: "moves", emit: "transitions" as const, firstWait: 500 }];
const parking = [
  { name: "ours", match: { tracked: true } },
  { name: "vip", match: { tracked: true, references: ["vip"] }, firstWait: 500 },
  { name: "loose", match: { tracked: true }, order: "none" as const, emit: "transitions" as const },
];
const rules = rulesFor([...routes, ...parking], { parkFor: 3_000 });

const event = fc.record({
  id: fc.integer({ min: 0, max: 12 }),
  wamid: fc.integer({ min: 0, max: 2 }),
  status: fc.constantFrom("sent", "delivered", "read", "failed", "played"),
  other: fc.boolean(),
});
const wamid = fc.integer({ min: 0, max: 2 });
const registrations = fc.array(
  fc.record(
    {
      account: fc.constant("main"),
      wamid: wamid.map((n) => `wamid.${n}`),
      id: fc.constantFrom("msg_1", "msg_2"),
      reference: fc.constantFrom("vip", "other"),
      metadata: fc.dictionary(fc.constantFrom("a", "b"), fc.integer({ min: 0, max: 1 }), { noNullPrototype: true }),
      sentAt: fc.constantFrom(start - 1_000, start + 1_000),
    },
    { requiredKeys: ["account", "wamid"] },
  ),
  { minLength: 1, maxLength: 3 },
);
const step = fc.oneof(
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("accept" as const), events: fc.array(event, { minLength: 1, maxLength: 6 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("register" as const), registrations }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("registerEach" as const), registrations }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("expire" as const), limit: fc.integer({ min: 1, max: 4 }) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("settle" as const),
      to: fc.array(fc.constantFrom("delivered" as const, "waiting" as const, "dead" as const), { minLength: 1, maxLength: 4 }),
      route: fc.constantFrom(...[...routes, ...parking].map(({ name }) => name)),
    }),
  },
);

/** Without the lane, and in one order. */
const dueOf = (due: readonly DueDelivery[]) =>
  due.map(({ route, event, at }) => ({ route, event, at })).sort((a, b) => a.event - b.event || (a.route < b.route ? -1 : 1));

/** What both engines say of a due delivery. */
const shown = ({ lane: _, dueAt: __, cause: ___, ...delivery }: QueuedDelivery) => delivery;

/** Its number is one of a sequence, of which a repeated transaction takes more. */
const withoutSeq = ({ seq: _, ...row }: RowOf<typeof subjects>) => row;

test("random steps have the same outcomes on the old SQLite engine, the new one and PostgreSQL", { tags: ["slow"] }, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 50, size: "max" }), async (steps) => {
      const folder = mkdtempSync(join(tmpdir(), "wamid-relay-old-"));
      const path = join(folder, "relay.db");
      const old = openSqliteStore(path, rules, { committed() {}, failed() {} });
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
          } else if (one.kind === "expire") {
            const ended = await old.expireParked(now, one.limit);
            for (const store of stores) expect(await store.expireParked(now, one.limit)).toEqual(ended);
          } else if (one.kind === "registerEach") {
            const shownOf = (all: readonly Registered[]) => all.map((each) => ("due" in each ? { ...each, due: dueOf(each.due) } : each));
            const registered = shownOf(await old.registerEach(one.registrations, now));
            for (const store of stores) expect(shownOf(await store.registerEach(one.registrations, now))).toEqual(registered);
          } else if (one.kind === "register") {
            const shownOf = (registering: ReturnType<OneStore["register"]>) =>
              registering.then(
                ({ created, due }) => ({ created, due: dueOf(due) }),
                (error: RelayError) => ({ code: error.code, details: error.details }),
              );
            const registered = await shownOf(old.register(one.registrations, now) as ReturnType<OneStore["register"]>);
            for (const store of stores) expect(await shownOf(store.register(one.registrations, now))).toEqual(registered);
          } else {
            const dueOld = old.due(one.route, now, one.to.length).map((seq) => old.load(one.route, seq));
            const due = await Promise.all(stores.map((store) => store.due(one.route, now, one.to.length)));
            for (const list of due) expect(list.map(shown)).toEqual(dueOld);
            const settlements = due.map((list) => list.map((delivery, place) => settlementOf(delivery, one.to[place] ?? "delivered", now)));
            for (const settlement of settlements[0] ?? []) await old.settle(settlement);
            for (const [place, store] of stores.entries()) await store.settle(settlements[place] ?? []);
          }
          for (const { name } of [...routes, ...parking]) {
            const next = old.nextDueAt(name, now);
            for (const store of stores) expect(await store.nextDueAt(name, now)).toBe(next);
          }
        }
        const [one, other] = await Promise.all(stores.map((store) => store.rows(subjects)));
        expect(other?.map(withoutSeq)).toEqual(one?.map(withoutSeq));
        for (const { name, status, times, registered_at, reference, service_id, metadata, registered_sent_at, updated_at } of one ?? []) {
          expect(await old.messageState("main", name)).toMatchObject({ status, times: JSON.parse(times) });
          expect(
            rowsOf(
              path,
              "SELECT registered_at, reference, service_id, metadata, told_sent_at, updated_at FROM messages WHERE wamid = ?",
              name,
            ),
          ).toEqual([{ registered_at, reference, service_id, metadata, told_sent_at: registered_sent_at, updated_at }]);
        }
        const [polled] = rowsOf<{ n: number }>(path, "SELECT count(*) AS n FROM asks");
        for (const store of stores) {
          expect(await store.rows(polls)).toHaveLength(polled?.n ?? 0);
          const verdictsOf = new Map((await store.rows(plans)).map(({ id, verdicts }) => [id, JSON.parse(verdicts) as KeptVerdict[]]));
          const stored = await store.rows(events);
          for (const { seq, disposition, plan } of stored) {
            const verdicts = verdictsOf.get(plan ?? 0);
            expect(await old.read.events.get(seq)).toMatchObject({ disposition: dispositions[disposition], verdicts });
          }
          const counted = Map.groupBy(
            (await store.rows(counters)).filter(({ series }) => series === "events"),
            ({ label }) => label,
          );
          for (const [code, word] of dispositions.entries()) {
            const sum = counted.get(word)?.reduce((all, { n }) => all + n, 0) ?? 0;
            expect(sum).toBe(stored.filter(({ disposition }) => disposition === code).length);
          }
        }
      } finally {
        await old.close();
        rmSync(folder, { recursive: true });
      }
    }),
    { numRuns: 8 },
  );
});
