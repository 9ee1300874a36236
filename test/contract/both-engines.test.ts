// Slow: it runs random steps on both engines and compares every reader. What retention takes differs: the one store keeps what is
// parked or waits for its hydration.
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Rules } from "../../src/store/rules.ts";
import { steps } from "./both-engines-draws.ts";
import { type OpenEngine, openDistributed, openEmbeddedAnew } from "./both-engines-open.ts";
import { answerOf, loadsOf, questions, wholeOf } from "./both-engines-readers.ts";
import { doOnBoth, type Known, switchedRules } from "./both-engines-steps.ts";
import { redisOfFile } from "./redis-of-file.ts";
import { start } from "./store-events.ts";

const { client } = redisOfFile();
let runs = 0;

function distributed(rules: Rules, plansLater: boolean): OpenEngine {
  runs += 1;
  return openDistributed(client(), `both-${runs}`, rules, plansLater);
}

test("both engines answer every reader alike after the same random steps, planned by the same process or another", {
  tags: ["slow"],
}, async () => {
  await fc.assert(
    fc.asyncProperty(steps, questions, fc.boolean(), async (done, asked, plansLater) => {
      const rules = switchedRules();
      const engines = [openEmbeddedAnew(rules), distributed(rules, plansLater)] as const;
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
      } finally {
        await Promise.all(engines.map((engine) => engine.end()));
      }
    }),
    { numRuns: 16, interruptAfterTimeLimit: 45_000 },
  );
});
