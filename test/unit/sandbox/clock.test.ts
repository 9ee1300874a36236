import { expect, test } from "vitest";
import { createSandboxClock } from "../../../src/sandbox/clock.ts";
import { createManualClock } from "../../harness/manual-clock.ts";

const start = 1_800_000_000_000;

function setUp() {
  const base = createManualClock(start);
  const clock = createSandboxClock(base);
  const seen: [what: string, at: number][] = [];
  const note = (what: string) => () => void seen.push([what, clock.now() - start]);
  return { base, clock, seen, note };
}

test("runs like the clock beneath it", async () => {
  const { base, clock, seen, note } = setUp();
  clock.after(200, note("b"));
  clock.after(100, note("a"));
  await base.advance(150);
  expect(seen).toEqual([["a", 100]]);
  expect(clock.now()).toBe(start + 150);
  await base.advance(50);
  expect(seen).toEqual([
    ["a", 100],
    ["b", 200],
  ]);
});

test("begins at another time when told", async () => {
  const base = createManualClock(start);
  const clock = createSandboxClock(base, 5_000);
  expect(clock.now()).toBe(5_000);
  await base.advance(10);
  expect(clock.now()).toBe(5_010);
});

test("a jump does everything on the way in order, each at its own time, what it plans included", async () => {
  const { base, clock, seen, note } = setUp();
  clock.after(3_000, note("late"));
  clock.after(1_000, () => {
    note("first")();
    clock.after(500, note("planned by first"));
    clock.after(10_000, note("beyond"));
  });
  clock.after(1_000, note("second"));
  clock.advance(5_000);
  expect(seen).toEqual([
    ["first", 1_000],
    ["second", 1_000],
    ["planned by first", 1_500],
    ["late", 3_000],
  ]);
  expect(clock.now()).toBe(start + 5_000);
  await base.advance(5_999);
  expect(seen).toHaveLength(4);
  await base.advance(1);
  expect(seen.at(-1)).toEqual(["beyond", 11_000]);
});

test("what is overdue at a jump happens now, not in the past", async () => {
  const { base, clock, seen, note } = setUp();
  clock.freeze();
  clock.after(10, note("due while frozen"));
  clock.thaw();
  clock.advance(0);
  expect(seen).toEqual([]);
  await base.advance(10);
  expect(seen).toEqual([["due while frozen", 10]]);
});

test("frozen, time passes only by jumps; thawed, it goes on from there", async () => {
  const { base, clock, seen, note } = setUp();
  clock.after(100, note("a"));
  clock.after(700, note("b"));
  await base.advance(50);
  clock.freeze();
  clock.freeze();
  expect(clock.isFrozen).toBe(true);
  await base.advance(10_000);
  expect(clock.now()).toBe(start + 50);
  expect(seen).toEqual([]);
  clock.advance(100);
  expect(seen).toEqual([["a", 100]]);
  expect(clock.now()).toBe(start + 150);
  clock.thaw();
  clock.thaw();
  expect(clock.isFrozen).toBe(false);
  await base.advance(549);
  expect(seen).toHaveLength(1);
  await base.advance(1);
  expect(seen.at(-1)).toEqual(["b", 700]);
});

test("one timer beneath it, however much is planned, and none while frozen or closed", () => {
  const { base, clock, note } = setUp();
  const cancels = Array.from({ length: 50 }, (_, n) => clock.after(1_000 - n, note(String(n))));
  expect(base.pending()).toBe(1);
  clock.advance(100);
  expect(base.pending()).toBe(1);
  clock.freeze();
  expect(base.pending()).toBe(0);
  clock.after(1, note("frozen"));
  expect(base.pending()).toBe(0);
  clock.thaw();
  expect(base.pending()).toBe(1);
  for (const cancel of cancels) cancel();
  clock.close();
  expect(base.pending()).toBe(0);
  clock.after(1, note("closed"));
  clock.advance(10_000);
  expect(base.pending()).toBe(0);
});

test("an earlier thing moves the timer forward; what was taken back does not happen", async () => {
  const { base, clock, seen, note } = setUp();
  const cancel = clock.after(500, note("taken back"));
  clock.after(600, note("late"));
  clock.after(100, note("early"));
  cancel();
  await base.advance(100);
  expect(seen).toEqual([["early", 100]]);
  await base.advance(500);
  expect(seen).toEqual([
    ["early", 100],
    ["late", 600],
  ]);
});

test("one that throws keeps neither the others from their time nor the clock from going on", async () => {
  const { base, clock, seen, note } = setUp();
  clock.after(10, () => {
    throw new Error("as a bug would");
  });
  clock.after(20, note("after it"));
  await expect(base.advance(10)).rejects.toThrow("as a bug would");
  await base.advance(10);
  expect(seen).toEqual([["after it", 20]]);
});

test("a jump that throws half-way has moved time as far as it came, and can be made again", () => {
  const { clock, seen, note } = setUp();
  clock.after(10, () => {
    throw new Error("as a bug would");
  });
  clock.after(20, note("after it"));
  expect(() => clock.advance(100)).toThrow("as a bug would");
  clock.advance(100);
  expect(seen.map(([what]) => what)).toEqual(["after it"]);
});

test("a jump from within what is being done goes on from its time", () => {
  const { clock, seen, note } = setUp();
  clock.after(1_000, () => {
    clock.advance(500);
    note("after the inner jump")();
  });
  clock.after(1_200, note("within the inner jump"));
  clock.after(1_800, note("after both"));
  clock.advance(2_000);
  expect(seen.map(([what]) => what)).toEqual([
    "within the inner jump",
    "after the inner jump",
    "after both",
  ]);
  expect(seen[0]?.[1]).toBe(1_200);
  expect(clock.now()).toBe(start + 2_000);
});
