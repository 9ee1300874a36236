import fc from "fast-check";
import { expect, test } from "vitest";
import type { ClaimedPoll } from "../../../src/model/poll.ts";
import type { PollTimes } from "../../../src/reconcile/polls.ts";
import { afterAnswer, afterMissing, checkClaim } from "../../../src/reconcile/polls.ts";

const minute = 60_000;
const since = 1_800_000_000_000;
const times: PollTimes = { after: minute, giveUpAfter: 72 * 60 * minute, until: "read" };

function claimed(parts: Partial<ClaimedPoll> & { readonly status?: string | null }): ClaimedPoll {
  const { status = "sent", ...more } = parts;
  const state = { status, error: null, times: {} } as ClaimedPoll["state"];
  const claim = {
    message: 1,
    until: since + 10 * minute,
    wamid: "w",
    messageId: "id",
    state,
    since,
    dueAt: since,
    rank: 0,
  };
  return { ...claim, polls: 0, failures: 0, misses: 0, polledAt: null, readAt: null, ...more };
}

const nextAge = (claim: ClaimedPoll, age: number) => {
  const settled = checkClaim(claim, since + age, times);
  if (settled === null) return "now";
  return settled.end === "again" ? (settled.nextAt - since) / minute : settled.end;
};

test("polls at the ages of the schedule, less often once delivered, never when final or too old", () => {
  expect(nextAge(claimed({}), minute)).toBe("now");
  expect(nextAge(claimed({ polledAt: since + 1.1 * minute }), 1.5 * minute)).toBe(2);
  expect(nextAge(claimed({ status: "delivered" }), minute)).toBe(60);
  expect(nextAge(claimed({ status: "read" }), minute)).toBe("over");
  expect(nextAge(claimed({}), 73 * 60 * minute)).toBe("over");
});

test("waits after a read by hydration as after a poll, and for `after` at least", () => {
  expect(nextAge(claimed({ readAt: since + 0.9 * minute }), minute)).toBe(1.9);
  expect(nextAge(claimed({ readAt: since + 0.9 * minute }), 1.9 * minute)).toBe("now");
  expect(nextAge(claimed({ readAt: since + 21 * minute }), 25 * minute)).toBe(40);
  expect(
    nextAge(claimed({ readAt: since + 4 * minute, polledAt: since + 5 * minute }), 6 * minute),
  ).toBe(10);
  // Polled after the read, which then delays nothing.
  expect(
    nextAge(claimed({ readAt: since + 2 * minute, polledAt: since + 3 * minute }), 5 * minute),
  ).toBe("now");
});

test("counts a message as missing after two credible 404s in a row", () => {
  const now = since + minute;
  const first = afterMissing(claimed({}), true, now, times);
  expect(first).toMatchObject({ end: "again", misses: 1, polls: 1, nextAt: since + 2 * minute });
  expect(afterMissing(claimed({ misses: 1 }), true, now, times)).toMatchObject({
    end: "missing",
    at: now,
  });
  expect(afterAnswer(claimed({ misses: 1 }), "sent", now, times)).toMatchObject({
    end: "again",
    misses: 0,
  });
  for (const misses of [0, 1]) {
    expect(afterMissing(claimed({ misses }), false, now, times)).toMatchObject({
      end: "again",
      misses,
      nextAt: since + 2 * minute,
    });
  }
});

test("does not poll within `after` of a read, and postpones no longer than the schedule or `after`", () => {
  const some = fc.integer({ min: 0, max: 70 * 60 * minute });
  fc.assert(
    fc.property(
      some,
      some,
      fc.option(some),
      fc.constantFrom(null, "sent", "delivered", "failed"),
      (read, later, polled, status) => {
        const age = read + later;
        const polledAt = polled === null || polled > age ? null : since + polled;
        const settled = checkClaim(
          claimed({ status, readAt: since + read, polledAt }),
          since + age,
          times,
        );
        if (later < times.after) expect(settled).not.toBeNull();
        if (settled?.end !== "again") return;
        expect(settled.nextAt).toBeGreaterThan(since + age);
        const unread = checkClaim(
          claimed({ status, polledAt: Math.max(since + read, polledAt ?? 0) }),
          since + age,
          times,
        );
        const regular =
          unread === null
            ? since + age
            : unread.end === "again"
              ? unread.nextAt
              : Number.POSITIVE_INFINITY;
        expect(settled.nextAt).toBeLessThanOrEqual(Math.max(regular, since + read + times.after));
      },
    ),
  );
});
