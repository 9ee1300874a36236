import { expect, test } from "vitest";
import { createPolls } from "../../../src/deliver/polls.ts";
import { createManualClock } from "../../harness/manual-clock.ts";

const hour = 3_600_000;

/** `look` answers for all routes. */
function setUp(look: (from: number) => Promise<Map<string, number | null>>) {
  const clock = createManualClock();
  const looks: { readonly routes: readonly string[]; readonly from: number }[] = [];
  const store = {
    nextDue(routes: readonly string[], from: number) {
      looks.push({ routes, from: from === 0 ? 0 : clock.now() - from });
      return look(from);
    },
  };
  const polls = createPolls(store, clock);
  const answers: [string, number][] = [];
  const faults: unknown[] = [];
  const busy = new Set<string>();
  const add = (route: string) =>
    polls.add({
      route,
      poll: () => !busy.has(route),
      answered: (at) => void (at === null || answers.push([route, at])),
      failed: (error) => void faults.push(error),
    });
  return { clock, looks, answers, faults, busy, add };
}

test("asks once for all idle routes, twice a second, and not for busy ones", async () => {
  const { clock, looks, answers, busy, add } = setUp(
    async () =>
      new Map([
        ["one", 7],
        ["two", null],
      ]),
  );
  for (const route of ["one", "two", "three"]) add(route);
  busy.add("three");
  await clock.advance(1_000);
  expect(looks.map(({ routes }) => routes)).toEqual([
    ["one", "two"],
    ["one", "two"],
  ]);
  expect(answers).toEqual([
    ["one", 7],
    ["one", 7],
  ]);
});

test("starts 5 s before the last look, every 10 s at the first row, and at the same time after failures", async () => {
  let fails = false;
  const { clock, looks, faults, add } = setUp(async () => {
    if (fails) throw new Error("down");
    return new Map();
  });
  for (const route of ["one", "two", "three"]) add(route);
  await clock.advance(8_000);
  fails = true;
  await clock.advance(1_000);
  expect(faults).toHaveLength(2);
  fails = false;
  await clock.advance(1_500);
  expect(looks.map(({ from }) => from).slice(14)).toEqual([
    5_500, 5_500, 5_500, 6_000, 6_500, 0, 5_500,
  ]);
});

test("waits for an answer that is late, and looks no more once all queues have left", async () => {
  const answer = Promise.withResolvers<Map<string, number | null>>();
  const { clock, looks, add } = setUp(() => answer.promise);
  const leave = add("one");
  await clock.advance(3_000);
  expect(looks).toHaveLength(1);
  answer.resolve(new Map());
  await clock.advance(500);
  expect(looks.map(({ from }) => from)).toEqual([5_500, 8_000]);
  leave();
  await clock.advance(hour);
  expect(looks).toHaveLength(2);
});
