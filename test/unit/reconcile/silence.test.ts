import fc from "fast-check";
import { expect, test } from "vitest";
import { findSilence, type Seen } from "../../../src/reconcile/silence.ts";

const minute = 60_000;
const after = 15 * minute;
const quiet: Seen = {
  events: 0,
  missed: 0,
  truncated: 0,
  refused: 0,
  registered: { count: 0, first: null },
  isSourceQuiet: false,
  quotaUsedUp: false,
};

test("is not detected while no messages are registered", () => {
  expect(findSilence({ ...quiet, refused: 100 }, after * 10, after)).toBeNull();
});

test("is detected without messages when a source has ten bad signatures and no event", () => {
  const seen = { ...quiet, isSourceQuiet: true, refused: 10 };
  expect(findSilence(seen, 0, after)).toEqual({ kind: "refused", causes: ["secret"] });
  expect(findSilence({ ...seen, refused: 9 }, 0, after)).toBeNull();
});

test("is detected when messages were registered and no event arrived for long enough", () => {
  const seen = { ...quiet, registered: { count: 5, first: 0 } };
  expect(findSilence(seen, after - 1, after)).toBeNull();
  expect(findSilence(seen, after, after)).toEqual({ kind: "nothing", causes: ["url", "quota"] });
  expect(findSilence({ ...seen, registered: { count: 4, first: 0 } }, after, after)).toBeNull();
  expect(findSilence({ ...seen, refused: 1 }, after, after)?.causes).toEqual(["secret"]);
  expect(findSilence({ ...seen, quotaUsedUp: true }, after, after)?.causes).toEqual([
    "quota",
    "url",
  ]);
});

test("is detected when polls found at least ten statuses, and a fifth of all", () => {
  expect(findSilence({ ...quiet, events: 36, missed: 9 }, 0, after)).toBeNull();
  expect(findSilence({ ...quiet, events: 41, missed: 10 }, 0, after)).toBeNull();
  expect(findSilence({ ...quiet, events: 40, missed: 10 }, 0, after)).toEqual({
    kind: "missed",
    causes: ["dropped"],
  });
});

test("does not count statuses of truncated events as missing", () => {
  const seen = { ...quiet, events: 40, missed: 15, truncated: 6 };
  expect(findSilence(seen, 0, after)).toBeNull();
  expect(findSilence({ ...seen, truncated: 5 }, 0, after)?.kind).toBe("missed");
});

test("always has a cause", () => {
  const seen = fc.record({
    events: fc.nat(100),
    missed: fc.nat(100),
    truncated: fc.nat(10),
    refused: fc.nat(20),
    isSourceQuiet: fc.boolean(),
    registered: fc.record({ count: fc.nat(10), first: fc.constantFrom(null, 0) }),
    quotaUsedUp: fc.boolean(),
  });
  fc.assert(
    fc.property(seen, fc.nat(2 * after), (some, now) => {
      expect(findSilence(some, now, after)?.causes.length ?? 1).toBeGreaterThan(0);
    }),
  );
});
