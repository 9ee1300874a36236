// Polls and hydration by several processes, each with connections of its own.
import fc from "fast-check";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { fieldsSchema, polledEvent } from "../../../src/model/event.ts";
import type { Wamid } from "../../../src/model/ids.ts";
import type { ClaimedPoll } from "../../../src/model/poll.ts";
import type { DueDelivery } from "../../../src/store/port.ts";
import { plans, tables } from "../../../src/store/schema/tables.ts";
import { claimPolls } from "../../../src/store/work/polls.ts";
import { emptyShared, type OneStore, type SharedDatabase } from "../../contract/one-store.ts";
import { anEvent, rulesFor, start } from "../../contract/store-events.ts";
import { storeOn } from "../../contract/store-on-database.ts";
import { closeGate, passGate } from "../../harness/postgres-gate.ts";
import { openSession, type Session } from "../../harness/postgres-session.ts";

type Process = ReturnType<typeof storeOn>;

const minute = 60_000;
const leaseMs = 10 * minute;
const data = { truncated: true, id: null as string | null, size: 300_000 };
const all = { reason: null, unknown: 0, receivedBy: Number.MAX_SAFE_INTEGER };
const rules = rulesFor([{ name: "holding", truncated: "hold" }]);

let shared: SharedDatabase;
let observer: Session;
let opened: OneStore;
let processes: readonly [Process, Process, Process];

beforeAll(async () => {
  shared = await emptyShared();
  observer = await openSession(shared.url);
  const writers = ["one", "two", "three"];
  const stores = await Promise.all(writers.map((writer) => shared.open(rules, { writer })));
  opened = stores[0] as OneStore;
  processes = stores.map((store) => storeOn(store, rules)) as unknown as typeof processes;
});
beforeEach(empty);
afterAll(async () => {
  await observer[Symbol.asyncDispose]();
  await shared[Symbol.asyncDispose]();
});

async function empty(): Promise<void> {
  // The processes remember which plans are stored.
  const others = tables.filter((table) => table !== plans);
  await observer.rows(`TRUNCATE ${others.map(({ name }) => `relay.${name}`).join(", ")}`);
}

const claimOf = (now: number, limit = 100) => ({
  account: "main",
  now,
  dueBy: now,
  after: minute,
  limit,
  leaseMs,
});

function register(store: Process, wamids: readonly string[]) {
  return store.register(
    wamids.map((wamid) => ({ account: "main", wamid, id: `id-of-${wamid}` })),
    start,
  );
}

async function truncated(store: Process, receivedAt = start): Promise<number> {
  return (await store.accept(anEvent({ receivedAt, data }))).seq;
}

function learn(store: Process, wamid: string, status: string) {
  const learned = {
    account: "main",
    source: "main",
    fields: fieldsSchema.parse({}),
    origin: "hydrate",
    errorCode: null,
  } as const;
  return store.accept(
    polledEvent({
      ...learned,
      messageId: `id-of-${wamid}`,
      wamid: wamid as Wamid,
      status,
      at: start,
    }),
  );
}

async function passOf(store: Process, now = start) {
  const pass = await store.beginPass("main", now);
  if (pass === null) throw new Error("nothing waits");
  return pass;
}

describe("polls", () => {
  test("a claim passes over what another transaction claims at that moment", async () => {
    const [one, other] = processes;
    await register(
      one,
      Array.from({ length: 20 }, (_, n) => `w${n}`),
    );
    const gate = await closeGate(observer);
    const first = opened.run(function* () {
      const claimed = yield* claimPolls(claimOf(start + minute, 15));
      yield* passGate();
      return claimed;
    });
    await gate.reached();
    const second = await other.claimPolls(claimOf(start + minute));
    await gate.open();
    const claimed = [...(await first), ...second].map(({ wamid }) => wamid);
    expect([second.length, new Set(claimed).size]).toEqual([5, 20]);
  });

  test("sums the calls of all processes", async () => {
    await Promise.all(
      processes.map((store) => store.addServiceCalls("main", start, { polls: 1, others: 10 })),
    );
    expect(await processes[0].serviceCalls("main", start)).toEqual([
      { day: start, polls: 3, others: 30 },
    ]);
  });

  test("a message that turns out missing while an event about it arrives is polled again, or was never missing", async () => {
    const [one, other] = processes;
    for (let round = 0; round < 10; round += 1) {
      const wamid = `w${round}`;
      await register(one, [wamid]);
      const [poll] = (await one.claimPolls(claimOf(start + minute))) as [ClaimedPoll];
      await Promise.all([
        one.settlePolls([{ message: poll.message, until: poll.until, end: "missing", at: start }]),
        other.accept(anEvent({ wamid, status: "sent" })),
      ]);
      const [tracked] = await one.trackedMessages("main", {
        withId: true,
        before: { registeredAt: start + 1, message: Number.MAX_SAFE_INTEGER },
        from: 0,
        limit: 1,
      });
      const due = await one.claimPolls(claimOf(start + minute));
      expect(due.map((claimed) => claimed.wamid)).toEqual(
        tracked?.message === poll.message ? [wamid] : [],
      );
      await one.settlePolls(due.map(({ message, until }) => ({ message, until, end: "over" })));
    }
  });

  test("concurrent processes never poll the same message", async () => {
    const action = fc.tuple(
      fc.constantFrom("claim", "claim", "settle", "wait"),
      fc.nat({ max: 2 }),
      fc.nat({ max: 40 }),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(action, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 15 }),
        async (rounds) => {
          await empty();
          const wamids = Array.from({ length: 30 }, (_, n) => `w${n}`);
          await register(processes[0], wamids);
          let now = start + minute;
          /** When a message may be claimed, by what is known of it. */
          const free = new Map(wamids.map((wamid) => [wamid, now]));
          const freeAt = (until: number, rank: number) => (rank === 0 ? until + minute : until);
          const held: ClaimedPoll[][] = [[], [], []];
          for (const round of rounds) {
            const before = new Map(free);
            const claimed: ClaimedPoll[] = [];
            let later = 1;
            await Promise.all(
              round.map(async ([what, process, detail]) => {
                const store = processes[process] as Process;
                if (what === "wait") later += detail * minute;
                if (what === "settle") {
                  const some = held[process]?.splice(0, detail) ?? [];
                  const next = {
                    nextAt: now + (1 + (detail % 7)) * minute,
                    rank: detail % 32,
                    failures: 0,
                    misses: 0,
                    polledAt: now,
                  };
                  await store.settlePolls(
                    some.map(({ message, until, polls }) => ({
                      message,
                      until,
                      end: "again",
                      polls: polls + 1,
                      ...next,
                    })),
                  );
                  // A claim that has expired is another's, or will be.
                  for (const { wamid, until, rank } of some)
                    if (before.get(wamid) === freeAt(until, rank))
                      free.set(wamid, freeAt(next.nextAt, next.rank));
                }
                if (what !== "claim") return;
                const polls = await store.claimPolls(claimOf(now, detail));
                claimed.push(...polls);
                held[process]?.push(...polls);
              }),
            );
            expect(new Set(claimed.map(({ wamid }) => wamid)).size).toBe(claimed.length);
            for (const { wamid, until, rank } of claimed) {
              expect(before.get(wamid)).toBeLessThanOrEqual(now);
              free.set(wamid, freeAt(until, rank));
            }
            now += later;
          }
          const rest = await processes[0].claimPolls(claimOf(now, 100));
          const due = wamids.filter((wamid) => (free.get(wamid) ?? 0) <= now);
          expect(rest.map(({ wamid }) => wamid).toSorted()).toEqual(due.toSorted());
        },
      ),
      { numRuns: 10 },
    );
  });
});

describe("hydration", () => {
  test("two processes that begin a pass have the same one, and settle each event once", async () => {
    const [one, other, third] = processes;
    const seqs = [await truncated(one), await truncated(other), await truncated(third)];
    const [pass, same] = await Promise.all([passOf(one, start + 5), passOf(other, start + 5)]);
    expect(same).toEqual(pass);
    await one.noteReads(pass, 4, [], start);
    expect(await passOf(third, start + 9)).toEqual({ ...pass, polled: 4 });
    const settled = await Promise.all(
      [one, other].map((store) => store.settleCovered(pass, all, start + 9, 100)),
    );
    expect(settled.reduce((sum, { events }) => sum + events, 0)).toBe(3);
    expect(
      settled.flatMap(({ due }) => due.map(({ event }) => event)).toSorted((a, b) => a - b),
    ).toEqual(seqs);
    for (const seq of seqs)
      expect(await one.read.getEvent(seq)).toMatchObject({
        disposition: "routed",
        hydration: { polled: 4 },
      });
  });

  test("an ended pass settles nothing of the next one", async () => {
    const [one, other] = processes;
    await truncated(one, start);
    const old = await passOf(one);
    await other.settleCovered(await passOf(other), all, start, 10);
    await other.endPass(old);
    const seq = await truncated(one, start + 1);
    const next = await passOf(other, start + 1);
    expect(await one.covered(old)).toBeNull();
    expect(await one.settleCovered(old, all, start + 2, 10)).toEqual({ events: 0, due: [] });
    await one.noteReads(old, 7, [], start);
    await one.endPass(old);
    expect(await passOf(one, start + 3)).toEqual(next);
    expect((await other.settleCovered(next, all, start + 3, 10)).due).toMatchObject([
      { event: seq },
    ]);
    expect(await one.waitingAccounts()).toEqual([]);
  });

  test("keeps both a status and a read of the same message at the same time", async () => {
    const [one, other, third] = processes;
    await register(one, ["w"]);
    await truncated(one);
    const pass = await passOf(one);
    const query = {
      withId: true,
      before: { registeredAt: start + 1, message: Number.MAX_SAFE_INTEGER },
      from: 0,
      limit: 1,
    };
    const message = (await one.trackedMessages("main", query))[0]?.message ?? 0;
    await Promise.all([
      one.noteReads(pass, 1, [{ message, at: start + 1 }], start),
      ...["pending", "sent", "delivered"].map((status) =>
        other.accept(anEvent({ wamid: "w", status })),
      ),
      third.noteReads(pass, 1, [{ message, at: start + 1 }], start),
    ]);
    expect(await third.trackedMessages("main", query)).toMatchObject([
      { status: "delivered", readAt: start + 1 },
    ]);
    expect(await third.beginPass("main", start)).toMatchObject({ polled: 2 });
  });

  test("concurrent processes settle each event once, and a holding route gets it once or filters it with a reason", async () => {
    const step = fc.tuple(
      fc.constantFrom("accept", "accept", "learn", "settle", "end"),
      fc.nat({ max: 2 }),
      fc.nat({ max: 5 }),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(step, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 12 }),
        async (rounds) => {
          await empty();
          const events: number[] = [];
          const due: DueDelivery[] = [];
          let settled = 0;
          let now = start;
          let news = 0;

          function count(done: {
            readonly events: number;
            readonly due: readonly DueDelivery[];
          }): void {
            settled += done.events;
            due.push(...done.due);
          }

          for (const round of rounds) {
            now += 1;
            await Promise.all(
              round.map(async ([what, process, detail]) => {
                const store = processes[process] as Process;
                if (what === "accept") return events.push(await truncated(store, now));
                if (what === "learn") {
                  news += 1;
                  return learn(
                    store,
                    `w${news % 5}`,
                    ["sent", "delivered", "read"][detail % 3] as string,
                  );
                }
                const pass = await store.beginPass("main", now);
                if (pass === null) return;
                await store.noteReads(pass, 1, [], start);
                count(
                  await store.settleCovered(
                    pass,
                    { ...all, unknown: detail % 2 },
                    now,
                    what === "end" && detail > 0 ? 100 : detail,
                  ),
                );
                if (what === "end") await store.endPass(pass);
              }),
            );
          }
          for (
            let pass = await processes[0].beginPass("main", now);
            pass !== null;
            pass = await processes[0].beginPass("main", now)
          ) {
            count(await processes[0].settleCovered(pass, all, now, 100));
            await processes[0].endPass(pass);
          }

          expect(settled).toBe(events.length);
          expect(await processes[0].waitingAccounts()).toEqual([]);
          const views = await Promise.all(events.map((seq) => processes[0].read.getEvent(seq)));
          for (const view of views) {
            expect(view?.hydration?.state).toBe("done");
            expect(view?.hydration?.found).toHaveLength(view?.hydration?.foundCount ?? -1);
            const isAccountedFor =
              view?.hydration?.unknown === 0 && (view.hydration.foundCount ?? 0) > 0;
            expect(view?.disposition).toBe(isAccountedFor ? "filtered" : "routed");
          }
          const routed = views.flatMap((view) =>
            view?.disposition === "routed" ? [view.seq] : [],
          );
          expect(due.map(({ event }) => event).toSorted((a, b) => a - b)).toEqual(
            routed.toSorted((a, b) => a - b),
          );
        },
      ),
      { numRuns: 15 },
    );
  });
});
