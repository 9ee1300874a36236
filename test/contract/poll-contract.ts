import { expect, test } from "vitest";
import type { ClaimedPoll } from "../../src/model/poll.ts";
import type { ContractStore, OpenSubject } from "./contract-store.ts";
import { accept, openWith } from "./contract-tools.ts";
import { start } from "./store-events.ts";

const minute = 60_000;
const leaseMs = 10 * minute;

async function claim(
  store: ContractStore,
  now: number,
  { limit = 100, dueBy = now, account = "main" } = {},
): Promise<readonly ClaimedPoll[]> {
  return store.claimPolls({ account, now, dueBy, after: minute, limit, leaseMs });
}

function register(
  store: ContractStore,
  wamids: readonly string[],
  more: { id?: boolean; sentAt?: number; account?: string } = {},
) {
  const { id = true, sentAt, account = "main" } = more;
  return store.register(
    wamids.map((wamid) => ({
      account,
      wamid,
      ...(id ? { id: `id-${wamid}` } : {}),
      ...(sentAt === undefined ? {} : { sentAt }),
    })),
    start,
  );
}

const again = ({ message, until }: ClaimedPoll, nextAt: number, rank = 1) =>
  ({
    message,
    until,
    end: "again",
    nextAt,
    rank,
    polls: 1,
    failures: 0,
    misses: 0,
    polledAt: nextAt - minute,
  }) as const;
const wamids = (polls: readonly ClaimedPoll[]) => polls.map(({ wamid }) => wamid).toSorted();
const count = (store: ContractStore, dueBy: number) =>
  store.countPolls({
    account: "main",
    dueBy,
    after: minute,
    from: 0,
    resting: ["read"],
    rare: { statuses: ["delivered"], sentBy: 0 },
  });

export function pollContract(open: OpenSubject): void {
  test("a message with the service's id is due at its age, with its state", async () => {
    const { store } = await openWith(open, []);
    await register(store, ["w"]);
    await register(store, ["late"], { sentAt: start + 5 * minute });
    await register(store, ["elsewhere"], { account: "other" });
    await accept(store, { wamid: "w", status: "sent" });
    expect(await claim(store, start + minute - 1)).toEqual([]);
    expect(await claim(store, start + minute)).toMatchObject([
      {
        wamid: "w",
        messageId: "id-w",
        state: { status: "sent" },
        since: start,
        polls: 0,
        failures: 0,
        misses: 0,
        polledAt: null,
        readAt: null,
        until: start + 11 * minute,
      },
    ]);
    expect(wamids(await claim(store, start + 6 * minute))).toEqual(["late"]);
    expect(await claim(store, start + minute, { account: "nobody" })).toEqual([]);
  });

  test("keeps the last pass of each account", async () => {
    const { store } = await openWith(open, []);
    expect(await store.lastPasses()).toEqual([]);
    const counts = {
      polled: 5,
      changed: 0,
      unchanged: 0,
      missing: 0,
      failed: 5,
      postponed: 0,
      unpollable: 0,
      lastsUntil: null,
    };
    const first = {
      ...counts,
      account: "main",
      endedAt: start,
      stopped: { reason: "unreachable", until: null },
      unreachableSince: start,
      unansweredAt: start,
    } as const;
    const other = { ...first, account: "other" };
    const second = {
      ...first,
      endedAt: start + minute,
      failed: 0,
      unchanged: 5,
      stopped: null,
      unreachableSince: null,
      unansweredAt: null,
    };
    for (const pass of [first, other, second]) await store.notePass(pass);
    expect(await store.lastPasses()).toHaveLength(2);
    expect(await store.lastPasses()).toEqual(expect.arrayContaining([second, other]));
    expect(await store.lastPass("main")).toEqual(second);
    expect(await store.lastPass("nobody")).toBeNull();
  });

  test("stores the times of polls and of hydration reads separately", async () => {
    const { store } = await openWith(open, []);
    await register(store, ["w"]);
    const [ask] = await claim(store, start + minute);
    await store.settlePolls([again(ask as ClaimedPoll, start + 2 * minute)]);
    await accept(store, { data: { truncated: true, id: null, size: 300_000 } });
    const pass = await store.beginPass("main", start + minute);
    if (pass === null) throw new Error("nothing waits");
    await store.noteReads(
      pass,
      1,
      [{ message: (ask as ClaimedPoll).message, at: start + 90_000 }],
      start,
    );
    expect(await claim(store, start + 2 * minute)).toMatchObject([
      { wamid: "w", polledAt: start + minute, readAt: start + 90_000 },
    ]);
  });

  test("a message without the service's id is not due until a registration adds it", async () => {
    const { store } = await openWith(open, []);
    await register(store, ["w"], { id: false });
    await accept(store, { wamid: "seen" });
    expect(await claim(store, start + minute)).toEqual([]);
    expect(await count(store, start + minute)).toEqual({ due: 0, unpollable: 1, missing: 0 });
    await register(store, ["w"]);
    const [ask] = await claim(store, start + minute);
    expect(ask?.wamid).toBe("w");
    await register(store, ["w"]);
    expect(await claim(store, start + minute)).toEqual([]);
    expect(await count(store, start + minute)).toEqual({ due: 0, unpollable: 0, missing: 0 });
  });

  test("a claimed message is not claimed again until the lease expires, also after a restart", async () => {
    const subject = await openWith(open, []);
    let { store } = subject;
    const all = Array.from({ length: 40 }, (_, n) => `w${n}`);
    await register(store, all);
    const claims = await Promise.all(
      [15, 15, 15, 15].map((limit) => claim(store, start + minute, { limit })),
    );
    // On PostgreSQL a claim passes over what another is claiming, and so may get fewer.
    expect(Math.max(...claims.map(({ length }) => length))).toBeLessThanOrEqual(15);
    claims.push(await claim(store, start + minute));
    expect(wamids(claims.flat())).toEqual(all.toSorted());
    store = await subject.reopen();
    expect(await claim(store, start + minute + leaseMs - 1)).toEqual([]);
    expect(wamids(await claim(store, start + 2 * minute + leaseMs))).toEqual(all.toSorted());
  });

  test("a settlement applies to its own claim only", async () => {
    const { store } = await openWith(open, []);
    await register(store, ["w"]);
    const [first] = (await claim(store, start + minute)) as [ClaimedPoll];
    const late = start + 2 * minute + leaseMs;
    const [second] = (await claim(store, late)) as [ClaimedPoll];
    // The first is back from a long sleep.
    await store.settlePolls([again(first, late)]);
    await store.settlePolls([{ message: first.message, until: first.until, end: "over" }]);
    expect(await claim(store, late + 1)).toEqual([]);
    await store.settlePolls([again(second, late + 5)]);
    expect(await claim(store, late + 4)).toEqual([]);
    expect(await claim(store, late + 5)).toMatchObject([
      { wamid: "w", rank: 1, polls: 1, polledAt: late + 5 - minute },
    ]);
  });

  test("a finished message is not polled, and a missing one is counted and not polled", async () => {
    const { store } = await openWith(open, []);
    await register(store, ["a", "b"]);
    const [a, b] = (await claim(store, start + minute)).toSorted((x, y) =>
      x.wamid < y.wamid ? -1 : 1,
    ) as [ClaimedPoll, ClaimedPoll];
    await store.settlePolls([
      { message: a.message, until: a.until, end: "over" },
      { message: b.message, until: b.until, end: "missing", at: start + minute },
    ]);
    expect(await claim(store, start + 10_000 * minute)).toEqual([]);
    expect(await count(store, start + 10_000 * minute)).toEqual({
      due: 0,
      unpollable: 0,
      missing: 1,
    });
  });

  test("keeps the count of 404s, and an expired claim marks nothing missing", async () => {
    const subject = await openWith(open, []);
    await register(subject.store, ["w"]);
    const [ask] = (await claim(subject.store, start + minute)) as [ClaimedPoll];
    await subject.store.settlePolls([{ ...again(ask, start + 2 * minute), misses: 1 }]);
    const store = await subject.reopen();
    expect(await claim(store, start + 2 * minute)).toMatchObject([{ wamid: "w", misses: 1 }]);
    await store.settlePolls([
      { message: ask.message, until: ask.until, end: "missing", at: start },
    ]);
    expect(await count(store, start + 2 * minute)).toMatchObject({ missing: 0 });
    expect(wamids(await claim(store, start + 3 * minute + leaseMs))).toEqual(["w"]);
  });

  test.each([
    [
      "an event that moves it",
      (store: ContractStore) => accept(store, { wamid: "w", status: "sent" }),
    ],
    [
      "an event that tells nothing new",
      (store: ContractStore) => accept(store, { wamid: "w", status: "pending" }),
    ],
    ["its registration, with nothing new", (store: ContractStore) => register(store, ["w"])],
    [
      "its registration, with a reference",
      (store: ContractStore) =>
        store.register([{ account: "main", wamid: "w", reference: "r" }], start),
    ],
  ])("a missing message is polled again from the beginning after %s", async (_, revive) => {
    const subject = await openWith(open, []);
    await register(subject.store, ["w", "other"]);
    await accept(subject.store, { wamid: "w", status: "pending" });
    const claims = await claim(subject.store, start + minute);
    await subject.store.settlePolls(
      claims.map(({ message, until }) => ({ message, until, end: "missing", at: start + minute })),
    );
    const store = await subject.reopen();
    expect(await count(store, start + 10 * minute)).toMatchObject({ due: 0, missing: 2 });
    await revive(store);
    expect(await count(store, start + 10 * minute)).toMatchObject({ due: 1, missing: 1 });
    const query = {
      withId: true,
      before: { registeredAt: Number.MAX_SAFE_INTEGER, message: Number.MAX_SAFE_INTEGER },
      from: 0,
      limit: 10,
    };
    const tracked = await store.trackedMessages("main", query);
    expect(tracked.map(({ messageId }) => messageId)).toEqual(["id-w"]);
    expect(await claim(store, start + 10 * minute)).toMatchObject([
      { wamid: "w", since: start, polls: 0, failures: 0, misses: 0, polledAt: null },
    ]);
  });

  test("claims lower ranks first, and the longest due first among them", async () => {
    const { store } = await openWith(open, []);
    await register(store, ["a", "b", "c", "d"]);
    const by = new Map((await claim(store, start + minute)).map((ask) => [ask.wamid, ask]));
    const due = start + 100 * minute;
    await store.settlePolls([
      again(by.get("a") as ClaimedPoll, due - 9, 17),
      again(by.get("b") as ClaimedPoll, due - 1, 2),
      again(by.get("c") as ClaimedPoll, due - 2, 2),
      again(by.get("d") as ClaimedPoll, due + 1, 1),
    ]);
    expect(await count(store, due)).toMatchObject({ due: 3 });
    const order: string[] = [];
    for (let n = 0; n < 4; n++)
      order.push(...(await claim(store, due, { limit: 1 })).map(({ wamid }) => wamid));
    expect(order).toEqual(["c", "b", "a"]);
  });

  test("counts neither settled messages as due, nor rarely polled ones before their age", async () => {
    const { store } = await openWith(open, []);
    await register(store, ["open", "resting", "rare"]);
    await accept(store, { wamid: "resting", status: "read" });
    await accept(store, { wamid: "rare", status: "delivered" });
    expect(await count(store, start + minute)).toEqual({ due: 1, unpollable: 0, missing: 0 });
    const query = {
      account: "main",
      dueBy: start + minute,
      after: minute,
      from: 0,
      resting: ["read"],
    };
    expect(
      await store.countPolls({ ...query, rare: { statuses: ["delivered"], sentBy: start } }),
    ).toMatchObject({ due: 2 });
    expect(
      await store.countPolls({ ...query, from: start + 1, rare: { statuses: [], sentBy: 0 } }),
    ).toMatchObject({ due: 0 });
  });

  test("sums calls by day, across restarts", async () => {
    const subject = await openWith(open, []);
    const day = 86_400_000;
    await subject.store.addServiceCalls("main", start, { polls: 1, others: 2 });
    await subject.store.addServiceCalls("main", start + day, { polls: 10, others: 0 });
    await subject.store.addServiceCalls("other", start, { polls: 100, others: 100 });
    await subject.store.addServiceCalls("main", start, { polls: 1, others: 1 });
    const store = await subject.reopen();
    expect(await store.serviceCalls("main", start)).toEqual([
      { day: start, polls: 2, others: 3 },
      { day: start + day, polls: 10, others: 0 },
    ]);
    expect(await store.serviceCalls("main", start + 1)).toHaveLength(1);
    expect(await store.serviceCalls("nobody", 0)).toEqual([]);
  });
}
