// Slow: it runs random steps on both databases and compares every reader.
import fc from "fast-check";
import { expect, test } from "vitest";
import { steps } from "./both-engines-draws.ts";
import { answerOf, loadsOf, questions, wholeOf } from "./both-engines-readers.ts";
import {
  doOnBoth,
  type Engine,
  type Known,
  openEngine,
  switchedRules,
} from "./both-engines-steps.ts";
import { openPostgres, openSqlite } from "./one-store.ts";
import { start } from "./store-events.ts";

test("SQLite and PostgreSQL answer every reader alike after the same random steps", {
  tags: ["slow"],
}, async () => {
  await fc.assert(
    fc.asyncProperty(steps, questions, async (done, asked) => {
      const rules = switchedRules();
      const engines = [
        await openEngine(openSqlite, rules),
        await openEngine(openPostgres(18), rules),
      ] as const;
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
          expect(await answerOf(other.store.read, question)).toEqual(
            await answerOf(model.store.read, question),
          );
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

/**
 * All that retention takes a while later: some of the ignored, of the deliveries and of the events.
 */
async function purgeBoth(engines: readonly Engine[], now: number): Promise<void> {
  const keep = {
    events: 60_000,
    ignored: 10_000,
    deliveries: 40_000,
    messages: 10 ** 12,
    history: 10 ** 11,
  };
  for (const { store } of engines) {
    // What goes in a later phase may leave something to an earlier one.
    for (let passes = 0; passes < 2; )
      if ((await store.purge(now + 50_000, keep, 50)).done) passes += 1;
  }
}
