import { expect, test } from "vitest";
import { startUpkeep, type UpkeepParts } from "../../../src/app/upkeep.ts";
import { createManualClock } from "../../harness/manual-clock.ts";
import { createSharedStore } from "./shared-observations.ts";

function open() {
  const clock = createManualClock();
  const shared = createSharedStore(clock);
  const done: string[] = [];
  function start(name: string, more: Partial<UpkeepParts> = {}): () => void {
    const does = (what: string) => async () => void done.push(`${name} ${what}`);
    return startUpkeep({
      clock,
      releaseParked: async () => 0,
      expireParked: async () => {
        await does("parking")();
        return 0;
      },
      sweep: async () => {
        await does("retention")();
        return { events: 0, deliveries: 0, messages: 0, done: true };
      },
      shortestKeep: () => 60_000,
      probe: does("probe"),
      storing: () => true,
      isInPlace: () => true,
      duty: shared.of(name).duty,
      endLeftExchanges: async () => {
        await does("exchanges")();
        return 0;
      },
      swept: () => {},
      failed: (what) => done.push(`${name} failed at ${what}`),
      ...more,
    });
  }
  const by = (name: string) => new Set(done.filter((line) => line.startsWith(name)).map((line) => line.split(" ")[1]));
  return { clock, shared, done, start, by };
}

test("of several processes one does each of what is to be done alone; another follows when it is gone", async () => {
  const { clock, done, start, by } = open();
  const endFirst = start("first");
  const endSecond = start("second");
  await clock.advance(60_000);
  for (const what of ["parking", "retention", "exchanges"]) {
    expect([by("first"), by("second")].filter((names) => names.has(what))).toHaveLength(1);
  }
  endFirst();
  done.length = 0;
  await clock.advance(120_000);
  expect(by("second")).toEqual(new Set(["parking", "retention", "exchanges"]));
  endSecond();
  expect(clock.pending()).toBe(0);
});

test("while the store is away nothing is said of it here, and everything goes on when it is back", async () => {
  const { clock, shared, done, start, by } = open();
  shared.away(true);
  const end = start("only", { storing: () => false });
  await clock.advance(60_000);
  expect(by("only")).toEqual(new Set(["probe"]));
  shared.away(false);
  await clock.advance(60_000);
  expect(by("only")).toEqual(new Set(["probe", "parking", "retention", "exchanges"]));
  expect(done.filter((line) => line.includes("failed"))).toEqual([]);
  end();
});
