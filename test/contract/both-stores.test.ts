// Slow: it runs random steps on both databases and compares every reader.
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Rules } from "../../src/store/port.ts";
import { stats } from "../../src/store/read/stats.ts";
import { steps } from "./both-engines-draws.ts";
import { answerOf, loadsOf, questions, wholeOf } from "./both-engines-readers.ts";
import { doOnBoth, type Engine, type Known, switchedRules } from "./both-engines-steps.ts";
import { type OpenStore, openPostgres, openSqlite } from "./one-store.ts";
import { start } from "./store-events.ts";
import { contracted, storeOn } from "./store-on-database.ts";

type OpenEngine = Engine & { end(): Promise<void> };

async function openOne(open: OpenStore, rules: Rules): Promise<OpenEngine> {
  const opened = await open(rules);
  const store = storeOn(opened, rules);
  const { load, settle } = contracted(opened, rules);
  /** Each database numbers messages in its own way. */
  const withoutLanes = <T>(outcome: T): T => JSON.parse(JSON.stringify(outcome), (key, value) => (key === "lane" ? undefined : value));
  return {
    store: {
      ...store,
      load,
      accept: async (...event) => withoutLanes(await store.accept(...event)),
      register: async (...list) => withoutLanes(await store.register(...list)),
      expireParked: async (...order) => withoutLanes(await store.expireParked(...order)),
      retry: async (...one) => withoutLanes(await store.retry(...one)),
      replay: async (...all) => withoutLanes(await store.replay(...all)),
      backfill: async (...all) => withoutLanes(await store.backfill(...all)),
      settleSend: async (...end) => withoutLanes(await store.settleSend(...end)),
    },
    settle,
    stats: () => opened.read(stats()),
    end: async () => opened[Symbol.asyncDispose](),
  };
}

test("SQLite and PostgreSQL answer every reader alike after the same random steps", { tags: ["slow"] }, async () => {
  await fc.assert(
    fc.asyncProperty(steps, questions, async (done, asked) => {
      const rules = switchedRules();
      const engines = [await openOne(openSqlite, rules), await openOne(openPostgres(18), rules)] as const;
      const [model, other] = engines;
      try {
        const known: Known = [];
        let now = start;
        for (const step of done) {
          now += step.after;
          await doOnBoth(engines, rules, step, now, known);
        }
        expect(await wholeOf(other.store.read)).toEqual(await wholeOf(model.store.read));
        expect(await other.stats()).toEqual(await model.stats());
        expect(await loadsOf(other)).toEqual(await loadsOf(model));
        for (const question of asked) {
          expect(await answerOf(other.store.read, question)).toEqual(await answerOf(model.store.read, question));
        }
        await purgeBoth(engines, now);
        expect(await wholeOf(other.store.read)).toEqual(await wholeOf(model.store.read));
      } finally {
        await Promise.all(engines.map((engine) => engine.end()));
      }
    }),
    { numRuns: 16, interruptAfterTimeLimit: 45_000 },
  );
});

/** All that retention takes a while later: some of the ignored, of the deliveries and of the events. */
async function purgeBoth(engines: readonly OpenEngine[], now: number): Promise<void> {
  const keep = { events: 60_000, ignored: 10_000, deliveries: 40_000, messages: 10 ** 12, history: 10 ** 11 };
  for (const { store } of engines) {
    // What goes in a later phase may leave something to an earlier one.
    for (let passes = 0; passes < 2; ) if ((await store.purge(now + 50_000, keep, 50)).done) passes += 1;
  }
}
