import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import type { Redis as Client } from "ioredis";
import { expect, test } from "vitest";
import { carryOver } from "../../src/store/migrate/carry.ts";
import { openSource } from "../../src/store/migrate/source.ts";
import { StoreUnavailable } from "../../src/store/port.ts";
import { steps } from "./both-engines-draws.ts";
import { openDistributed, openEmbedded } from "./both-engines-open.ts";
import { answerOf, loadsOf, ofSubjects, purgeBoth, questions, wholeOf } from "./both-engines-readers.ts";
import { doOnBoth, type Known, switchedRules } from "./both-engines-steps.ts";
import { redisOfFile } from "./redis-of-file.ts";
import { start } from "./store-events.ts";

const { client } = redisOfFile();
let runs = 0;

type Link = { run<T>(command: (redis: Client) => Promise<T>): Promise<T> };

/** Lets so many commands through; the next one fails, and with `isDone` it was done all the same. */
function brokenLink(after: number, isDone: boolean): Link {
  let left = after;
  return {
    async run(command) {
      left -= 1;
      if (left >= 0) return command(client());
      if (left === -1 && isDone) await command(client());
      throw new StoreUnavailable("the link is broken");
    },
  };
}

/** Carried over by tries that end after one command, after two, and so on, until one comes to the end. */
async function migrated(path: string): Promise<string> {
  runs += 1;
  const prefix = `migrated-${runs}`;
  for (let tries = 0; ; tries += 1) {
    const source = openSource(path);
    try {
      const link = brokenLink(tries, tries % 2 === 1);
      const order = { source, link, prefix, now: () => start, prepare: async () => {}, progress: () => {} };
      const migration = await carryOver(order);
      await migration.end();
      expect(tries).toBeGreaterThan(2);
      return prefix;
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error;
    } finally {
      source.close();
    }
  }
}

test("Redis answers every reader as the migrated file did, also after further steps", async () => {
  await fc.assert(
    fc.asyncProperty(steps, steps, questions, async (before, after, asked) => {
      const folder = mkdtempSync(join(tmpdir(), "migrate-"));
      const path = join(folder, "relay.db");
      const rules = switchedRules();
      const known: Known = [];
      let now = start;
      try {
        const first = openEmbedded(path, rules);
        try {
          for (const step of before) {
            now += step.after;
            await doOnBoth([first], rules, step, now, known);
          }
        } finally {
          await first.end();
        }
        const prefix = await migrated(path);
        const engines = [openEmbedded(path, rules), openDistributed(client(), prefix, rules)] as const;
        const [model, other] = engines;
        const same = async () => {
          expect(await wholeOf(other.store.read)).toEqual(await wholeOf(model.store.read));
          expect(await other.stats()).toEqual(await model.stats());
          expect(await loadsOf(other)).toEqual(await loadsOf(model));
          for (const question of asked) {
            expect(await answerOf(other.store.read, question)).toEqual(await answerOf(model.store.read, question));
          }
        };
        try {
          await same();
          for (const step of after) {
            now += step.after;
            await doOnBoth(engines, rules, step, now, known);
          }
          await same();
          await purgeBoth(engines, now);
          expect({ ...(await wholeOf(other.store.read)), ...ofSubjects }).toEqual({ ...(await wholeOf(model.store.read)), ...ofSubjects });
        } finally {
          await Promise.all(engines.map((engine) => engine.end()));
        }
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    }),
    { numRuns: 6, interruptAfterTimeLimit: 45_000 },
  );
});
