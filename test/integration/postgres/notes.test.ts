import { expect, test } from "vitest";
import type { AccountNote } from "../../../src/model/account-watch.ts";
import type { SendKey } from "../../../src/model/send.ts";
import { state, subjects } from "../../../src/store/schema/tables.ts";
import { rows, type Work } from "../../../src/store/sql/ops.ts";
import { sql } from "../../../src/store/sql/sql.ts";
import { noteWatched } from "../../../src/store/work/state-rows.ts";
import type { OneStore } from "../../contract/one-store.ts";
import { rulesFor, start } from "../../contract/store-events.ts";
import { openTwo } from "../../contract/store-on-database.ts";
import { during } from "../../harness/postgres-gate.ts";

const rules = rulesFor([]);
const key: SendKey = { account: "main", kind: "message", key: "k" };
const claim = { fingerprint: "f", resend: 0, about: "+54…01", at: start };

/** As if all leases and calls had run out. */
const expire = (opened: OneStore) =>
  opened.run(function* (): Work<void> {
    yield* rows(sql`UPDATE state SET until = 0 WHERE until IS NOT NULL`);
  });

test("one of two processes claims a key, and its call is in flight for the other until it ends or is gone", async () => {
  await using two = await openTwo(rules);
  const { one, other, opened } = two;
  const begun = await Promise.all([
    one.beginSend(key, claim),
    other.beginSend(key, claim),
    one.beginSend(key, claim),
  ]);
  expect(begun.filter((held) => held === null)).toHaveLength(1);
  const [caller, second] = begun[1] === null ? [other, one] : [one, other];
  expect(await second.findSend(key)).toMatchObject({ state: "calling", attempts: 1 });
  expect(await second.forgetSends(start + 1, 10)).toBe(0);
  expect(await second.beginSend(key, { ...claim, resend: 1 })).toMatchObject({ state: "calling" });

  await expire(opened);
  expect(await second.findSend(key)).toMatchObject({ state: "unknown", attempts: 1 });
  expect(await caller.findSend(key)).toMatchObject({ state: "calling" });
  expect(await second.beginSend(key, { ...claim, resend: 1, at: start + 5 })).toBeNull();
  // Its answer comes late: the message is registered, and the call of the second decides about the
  // key.
  const sent = {
    type: "message",
    id: "m",
    wamid: "w",
    status: "pending",
    conversationId: null,
    reference: undefined,
    metadata: undefined,
  } as const;
  await caller.settleSend(key, { end: "done", at: start + 6, answer: {}, sent });
  expect(await opened.rows(subjects)).toMatchObject([
    { name: "w", status: "pending", registered_at: start + 6 },
  ]);
  expect(await second.findSend(key)).toMatchObject({ state: "calling", attempts: 2 });
  await second.leave();
  expect(await caller.findSend(key)).toMatchObject({ state: "unknown", attempts: 2 });
  expect(await caller.forgetSends(start + 6, 10)).toBe(1);
});

test("a leader lease has one holder, until it is released or expires", async () => {
  await using two = await openTwo(rules);
  const { one, other, opened } = two;
  const taken = await Promise.all([
    one.holdLease("parking", 60_000),
    other.holdLease("parking", 60_000),
  ]);
  expect(taken.filter((isOurs) => isOurs)).toHaveLength(1);
  const [holder, second] = taken[0] ? [one, other] : [other, one];
  expect(await holder.holdLease("parking", 60_000)).toBe(true);
  expect(await second.holdLease("retention", 60_000)).toBe(true);
  await holder.leave();
  expect(await second.holdLease("parking", 60_000)).toBe(true);
  expect(await holder.holdLease("retention", 60_000)).toBe(false);
  await expire(opened);
  expect(await holder.holdLease("retention", 60_000)).toBe(true);
  expect(await second.holdLease("retention", 60_000)).toBe(false);
});

const windowMs = 900_000;
const seen: AccountNote = {
  account: "main",
  since: start,
  events: 1,
  truncated: 0,
  refused: 0,
  registered: 0,
  missed: 0,
};

test("what processes see of an account adds up, also when one commits late", async () => {
  await using two = await openTwo(rules);
  const { one, other } = two;
  await one.noteWatched([seen, { ...seen, account: "shop", isKeyRefused: true }], start, windowMs);
  const late = () => noteWatched([seen], start + 1, windowMs);
  await during(two.shared, late, () =>
    other.noteWatched([{ ...seen, polls: "404" }], start + 2, windowMs),
  );
  const watched = await one.watched();
  expect(watched.get("main")).toMatchObject({
    slots: [{ events: 3 }],
    lastEventAt: start + 2,
    polls: { since: start + 2, text: "404" },
  });
  expect(watched.get("shop")).toMatchObject({
    slots: [{ events: 1 }],
    keyRefusedAt: start,
    polls: null,
  });
});

test("processes that move one cursor and claim one key agree", async () => {
  await using two = await openTwo(rules);
  const { one, other, opened } = two;
  await Promise.all(
    [5, 9, 7].flatMap((seq) => [
      one.moveCursor("crm", seq, start),
      other.moveCursor("crm", seq - 1, start),
    ]),
  );
  expect(await one.findCursor("crm")).toBe(9);
  const claims = await Promise.all(
    [one, other, one, other].map((store) => store.claimOnce("code:a", start + 1)),
  );
  expect(claims.filter((isFirst) => isFirst)).toHaveLength(1);
  expect((await opened.rows(state)).map(({ key }) => key)).toEqual(["claim/code:a", "cursor/crm"]);
});
