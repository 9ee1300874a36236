import { type Commit, type Step, type StepResult, writeBatch } from "./commit.ts";
import { createGroupCommit } from "./group-commit.ts";
import type { Keys } from "./keys.ts";
import type { RedisLink } from "./link.ts";
import { readScript, type Script } from "./script.ts";
import { createTransact, type Transact } from "./transact.ts";

const parts = ["events", "gathered", "operations", "deliveries", "retention"];
const commitScript = readScript("commit", parts);
/** The same for steps that take away: a Redis that is full must not refuse them, or it stays full. */
const clearScript = readScript("commit", parts, " flags=allow-oom");

/** Operations that Redis does in the time of a usual step, which accepts an event or settles a delivery. */
const operationsOfStep = 5;

export interface StepsParts {
  readonly keys: Keys;
  readonly link: RedisLink;
  readonly version: () => string;
  /** A batch was stored; not told of what was only taken away, which is no proof that storing works. */
  readonly committed: (tookMs: number, writes: number) => void;
  readonly arriving?: (() => boolean) | undefined;
  /** A transaction of this process has changed something. */
  readonly changed: () => void;
}

/** The ways in which this process writes what belongs together. */
export function createSteps({ keys, link, version, committed, arriving, changed }: StepsParts) {
  const commitBy = (script: Script, committed: StepsParts["committed"]): Commit =>
    createGroupCommit<Step, StepResult>({
      write: (steps) => writeBatch(keys.base, steps),
      workOf: ({ operations = 0 }) => Math.max(1, operations / operationsOfStep),
      bytesOf: ({ bytes = 0 }) => bytes,
      send: (list) => link.run((redis) => script.run(redis, `${keys.base}seq`, list)) as Promise<readonly StepResult[]>,
      committed,
      arriving,
    });

  function transactBy(by: Commit): Transact {
    const step = createTransact(by, (key) => link.run((redis) => redis.get(key)), version);
    return async (body) => {
      const result = await step(body);
      changed();
      return result;
    };
  }

  const commit = commitBy(commitScript, committed);
  const clear = commitBy(clearScript, () => {});
  return {
    commit,
    transact: transactBy(commit),
    /** For what only takes away. */
    transactClear: transactBy(clear),
    /** Resolves when everything handed in so far is answered. */
    async idle(): Promise<void> {
      await commit.idle();
      await clear.idle();
    },
  };
}
