import type { Rules } from "../rules.ts";
import type { RedisLink } from "./client.ts";
import { type Commit, lostTheRace, mostTries, type Operation, pushOperations, type Step, type StepResult, writeBatch } from "./commit.ts";
import { createGroupCommit } from "./group-commit.ts";
import type { Keys } from "./keys.ts";
import type { StoredParts } from "./live-seqs.ts";
import { rowJson, rowVersion } from "./rows.ts";
import { type Argument, readScript, type Script } from "./script.ts";

/** Reads and writes of one transaction. Keys are full names. */
export interface Transaction {
  /** The JSON of a row; null when there is none. The commit fails if the row has changed since. */
  read(key: string): Promise<string | null>;
  /** Writes a row. */
  put(key: string, json: string): void;
  /** Writes the row of an event, and keeps an inline body. */
  rewrite(key: string, json: string): void;
  remove(key: string): void;
  /** Any Redis command, run in the step. */
  call(command: string, ...list: Argument[]): void;
  /** An operation of lua/commit.lua; `use` receives its result once the step is committed. */
  operate(operation: Operation, use?: (result: unknown) => void): void;
}

/**
 * Runs `body`, then commits its writes in one atomic step; runs `body` again when a row it read has changed meanwhile, so
 * `body` must have no side effects. Rejects with what `body` throws, nothing written, or with `StoreUnavailable`.
 */
export type Transact = <T>(body: (tx: Transaction) => T | Promise<T>) => Promise<T>;

/**
 * `get` reads a value of Redis. A transaction that loses a race for a row retries under the row's mutex, so that processes
 * compete for a busy row, not every transaction within them.
 */
function createTransact(commit: Commit, get: (key: string) => Promise<string | null>, version: () => string): Transact {
  const mutex = createKeyedMutex();

  /** `stale`: null when it is done, else the key of a row that was changed meanwhile. */
  async function tryOnce<T>(body: (tx: Transaction) => T | Promise<T>, isHolder: boolean): Promise<{ result: T; stale: string | null }> {
    const reads = new Map<string, string | null>();
    const operations: Operation[] = [];
    const uses: (((result: unknown) => void) | undefined)[] = [];

    function operate(operation: Operation, use?: (result: unknown) => void): void {
      operations.push(operation);
      uses.push(use);
    }

    const result = await body({
      async read(key) {
        let row = reads.get(key);
        if (row === undefined) {
          // A holder waits for no other key: two holders could wait for each other.
          if (!isHolder) await mutex.over(key);
          const found = await get(key);
          // Of two concurrent reads of one key, the first answer counts.
          row = reads.get(key);
          if (row === undefined) {
            reads.set(key, found);
            row = found;
          }
        }
        return row === null ? null : rowJson(row);
      },
      put: (key, json) => operate(["call", "SET", key, version() + json]),
      rewrite: (key, json) => operate(["rewrite", key, version() + json]),
      remove: (key) => operate(["call", "DEL", key]),
      call: (command, ...list) => operate(["call", command, ...list]),
      operate,
    });
    if (operations.length === 0) return { result, stale: null };

    const list: Argument[] = ["T", String(reads.size)];
    for (const [key, row] of reads) list.push(key, rowVersion(row));
    pushOperations(list, operations);
    const [isDone, ...results] = await commit.run({ list, operations: operations.length });
    if (isDone !== 1) return { result, stale: [...reads.keys()][Number(results[0]) - 1] ?? "" };
    for (const [index, use] of uses.entries()) use?.(results[index]);
    return { result, stale: null };
  }

  return async (body) => {
    let { result, stale } = await tryOnce(body, false);
    for (let tries = 1; stale !== null && tries < mostTries; ) {
      const lost: string = stale;
      const end = await mutex.take(lost);
      try {
        for (; stale === lost && tries < mostTries; tries++) ({ result, stale } = await tryOnce(body, true));
      } finally {
        end();
      }
    }
    if (stale !== null) throw lostTheRace("a row");
    return result;
  };
}

const parts = ["events", "gathered", "operations", "deliveries", "purge"];
const commitScript = readScript("commit", parts);
/** The same for steps that only delete: a full Redis must not refuse them, or it stays full. */
const clearScript = readScript("commit", parts, " flags=allow-oom");

/** Operations that take as long as a usual step, which accepts an event or settles a delivery. */
const operationsOfStep = 5;

interface StepsParts {
  readonly keys: Keys;
  readonly link: RedisLink;
  readonly version: () => string;
  /** Called when a batch was stored, but not for deletions, which do not show that storing works. */
  readonly committed: (tookMs: number, writes: number) => void;
  readonly arriving?: (() => boolean) | undefined;
  /** A transaction of this process has changed something. */
  readonly changed: () => void;
}

/** What writes of stored events need. */
export interface WriteParts extends StoredParts {
  readonly rules: Rules;
  readonly transact: Transact;
}

/** The ways in which this process writes atomically. */
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
    /** For steps that only delete. */
    transactClear: transactBy(clear),
    /** Resolves when every step passed so far is answered. */
    async idle(): Promise<void> {
      await commit.idle();
      await clear.idle();
    },
  };
}

/** Serializes work on a key within this process. */
export function createKeyedMutex() {
  const last = new Map<string, Promise<void>>();
  return {
    /** Resolves when the current holders and waiters are done; undefined when there are none. */
    over: (key: string): Promise<void> | undefined => last.get(key),
    /** Resolves with the release function once the caller holds the key. */
    async take(key: string): Promise<() => void> {
      const before = last.get(key);
      const { promise, resolve } = Promise.withResolvers<void>();
      const mine = before === undefined ? promise : before.then(() => promise);
      last.set(key, mine);
      await before;
      return () => {
        resolve();
        if (last.get(key) === mine) last.delete(key);
      };
    },
  };
}
