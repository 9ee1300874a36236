import fc from "fast-check";
import { expect, test } from "vitest";
import { createSilenceWatch, findSilence, type Seen } from "../../../src/reconcile/silence.ts";

const minute = 60_000;
const after = 15 * minute;
const quiet: Seen = { events: 0, missed: 0, truncated: 0, refused: 0, registered: { count: 0, first: null }, quotaUsedUp: false };

test("is not detected while no messages are registered", () => {
  expect(findSilence({ ...quiet, refused: 100 }, after * 10, after)).toBeNull();
});

test("is detected when messages were registered and no event arrived for long enough", () => {
  const seen = { ...quiet, registered: { count: 5, first: 0 } };
  expect(findSilence(seen, after - 1, after)).toBeNull();
  expect(findSilence(seen, after, after)).toEqual({ kind: "nothing", causes: ["url", "quota"] });
  expect(findSilence({ ...seen, registered: { count: 4, first: 0 } }, after, after)).toBeNull();
  expect(findSilence({ ...seen, refused: 1 }, after, after)?.causes).toEqual(["secret"]);
  expect(findSilence({ ...seen, quotaUsedUp: true }, after, after)?.causes).toEqual(["quota", "url"]);
});

test("is detected when polls found at least ten statuses, and a fifth of all", () => {
  expect(findSilence({ ...quiet, events: 36, missed: 9 }, 0, after)).toBeNull();
  expect(findSilence({ ...quiet, events: 41, missed: 10 }, 0, after)).toBeNull();
  expect(findSilence({ ...quiet, events: 40, missed: 10 }, 0, after)).toEqual({ kind: "missed", causes: ["dropped"] });
});

test("does not count statuses of truncated events as missing", () => {
  const seen = { ...quiet, events: 40, missed: 15, truncated: 6 };
  expect(findSilence(seen, 0, after)).toBeNull();
  expect(findSilence({ ...seen, truncated: 5 }, 0, after)?.kind).toBe("missed");
  const { watch, pass, told } = setUp();
  for (let n = 0; n < 20; n++) {
    watch.learned("main", `w${n}`, "sent");
    watch.arrived("main", null, null);
    if (n < 11) watch.truncated("main");
  }
  pass(3 * minute);
  expect(told).toEqual([]);
});

test("always has a cause", () => {
  const seen = fc.record({
    events: fc.nat(100),
    missed: fc.nat(100),
    truncated: fc.nat(10),
    refused: fc.nat(3),
    registered: fc.record({ count: fc.nat(10), first: fc.constantFrom(null, 0) }),
    quotaUsedUp: fc.boolean(),
  });
  fc.assert(
    fc.property(seen, fc.nat(2 * after), (some, now) => {
      expect(findSilence(some, now, after)?.causes.length ?? 1).toBeGreaterThan(0);
    }),
  );
});

function setUp() {
  let now = 1_800_000_000_000;
  const told: string[] = [];
  let missed = 0;
  const watch = createSilenceWatch({
    now: () => now,
    after: () => after,
    quotaUsedUp: () => false,
    began: ({ account, kind }) => void told.push(`began ${account} ${kind}`),
    ended: ({ account }) => void told.push(`ended ${account}`),
    missed: () => {
      missed += 1;
    },
  });
  return {
    watch,
    told,
    missed: () => missed,
    pass(ms: number) {
      for (let passed = 0; passed < ms; passed += 15_000) {
        now += 15_000;
        watch.look();
      }
    },
  };
}

test("a webhook within the grace period cancels the polled status of the same message only", () => {
  const { watch, pass, missed } = setUp();
  for (const wamid of ["a", "b", "c", "d"]) watch.learned("main", wamid, "delivered");
  pass(minute);
  watch.arrived("main", "a", "delivered");
  watch.arrived("main", "b", "read");
  watch.arrived("other", "c", "delivered");
  pass(5 * minute);
  expect(missed()).toBe(3);
});

test("the alarm begins once, and ends once events arrive", () => {
  const { watch, pass, told } = setUp();
  for (let n = 0; n < 20; n++) watch.learned("main", `w${n}`, "sent");
  pass(3 * minute);
  expect(told).toEqual(["began main missed"]);
  pass(5 * after);
  expect(told).toHaveLength(1);
  expect(watch.alarms()).toMatchObject([{ account: "main" }]);
  watch.arrived("main", "w", "sent");
  pass(minute);
  expect(told).toEqual(["began main missed", "ended main"]);
  expect(watch.alarms()).toEqual([]);
});

test("a few events among many missing ones do not end the alarm", () => {
  const { watch, pass, told } = setUp();
  for (let n = 0; n < 100; n++) {
    watch.learned("main", `w${n}`, "sent");
    if (n % 10 === 0) watch.arrived("main", "other", "sent");
    pass(15_000);
  }
  expect(told).toEqual(["began main missed"]);
});
