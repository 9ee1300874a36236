import { expect, onTestFinished, test } from "vitest";
import { createSupervisor } from "../../../src/app/supervise.ts";
import { startUpkeep, type UpkeepParts } from "../../../src/app/upkeep.ts";
import { createManualClock } from "../../harness/manual-clock.ts";
import { createSharedStore } from "./shared-observations.ts";

const retention = {
  events: 60_000,
  ignored: 60_000,
  deliveries: 60_000,
  messages: 60_000,
  history: 10 ** 11,
};

function open() {
  const clock = createManualClock();
  const shared = createSharedStore(clock);
  const done: string[] = [];
  function start(name: string, { isStoring = true } = {}): () => Promise<void> {
    const does =
      <T>(what: string, result: T) =>
      async () => {
        done.push(`${name} ${what}`);
        return result;
      };
    const supervisor = createSupervisor({
      clock,
      log: { error: (_: object, text: string) => done.push(`${name} ${text}`) } as never,
    });
    onTestFinished(supervisor.close);
    startUpkeep({
      clock,
      supervise: supervisor.supervise,
      settings: () =>
        ({ retention, send: { keepKeys: 1 } }) as unknown as ReturnType<UpkeepParts["settings"]>,
      store: {
        isShared: true,
        holdLease: shared.of(name).holdLease,
        announce: () => {},
        releaseParked: async () => ({ released: 0, due: [] }),
        expireParked: does("parking", { concluded: 0, due: [] }),
        forgetSends: async () => 0,
        purge: does("retention", { events: 0, deliveries: 0, messages: 0, done: true }),
        isInPlace: () => true,
        probe: does("probe", undefined),
        endLeftExchanges: does("exchanges", 0),
        sampleGauges: does("history", undefined),
      } as unknown as UpkeepParts["store"],
      backlog: async () => [],
      health: { storing: () => isStoring },
      metrics: { deleted: { inc() {} } } as unknown as UpkeepParts["metrics"],
    });
    return supervisor.close;
  }
  const by = (name: string) =>
    new Set(done.filter((line) => line.startsWith(name)).map((line) => line.split(" ")[1]));
  return { clock, shared, done, start, by };
}

test("one of several processes leads each task; another follows when it ends", async () => {
  const { clock, done, start, by } = open();
  const endFirst = start("first");
  const endSecond = start("second");
  await clock.advance(60_000);
  for (const what of ["parking", "retention", "exchanges", "history"]) {
    expect([by("first"), by("second")].filter((names) => names.has(what))).toHaveLength(1);
  }
  await endFirst();
  done.length = 0;
  await clock.advance(120_000);
  expect(by("second")).toEqual(new Set(["parking", "retention", "exchanges", "history"]));
  await endSecond();
  expect(clock.pending()).toBe(0);
});

test("an unavailable store is not logged here, and all tasks continue once it is back", async () => {
  const { clock, shared, done, start, by } = open();
  shared.away(true);
  start("only", { isStoring: false });
  await clock.advance(60_000);
  expect(by("only")).toEqual(new Set(["probe"]));
  shared.away(false);
  await clock.advance(60_000);
  expect(by("only")).toEqual(new Set(["probe", "parking", "retention", "exchanges", "history"]));
  expect(done.filter((line) => line.includes("failed"))).toEqual([]);
});
