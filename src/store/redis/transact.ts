import { randomBytes } from "node:crypto";
import { type Argument, type Commit, lostTheRace, mostTries, type Operation, pushOperations } from "./commit.ts";
import { createTurns } from "./turns.ts";

/** What a function under `transact` reads and writes. Keys are whole names. */
export interface Transaction {
  /** The JSON of a row; null when there is none. What is read must not have changed when the step is committed. */
  read(key: string): Promise<string | null>;
  /** Writes a row. */
  put(key: string, json: string): void;
  /** Writes the row of an event, and leaves the body that may stand in it. */
  rewrite(key: string, json: string): void;
  remove(key: string): void;
  /** Any command of Redis, run in the step. */
  call(command: string, ...list: Argument[]): void;
  /** An operation of lua/commit.lua; `use` gets what it gave, once the step is committed. */
  operate(operation: Operation, use?: (result: unknown) => void): void;
}

/**
 * Runs `body`, then commits what it asked for in one atomic step; runs it anew when a row it read was changed meanwhile.
 * It must not keep anything of a run but by its result. Rejects with what `body` throws, nothing written, or with `StoreUnavailable`.
 */
export type Transact = <T>(body: (tx: Transaction) => T | Promise<T>) => Promise<T>;

const versionLength = 10;

/** Ten characters that no other write of any process has: the version of a row. */
export function createVersions(): () => string {
  const process = randomBytes(3).toString("base64url");
  let count = 0;
  return () => {
    count = (count + 1) % 36 ** 6;
    return process + count.toString(36).padStart(6, "0");
  };
}

/** The JSON of a row, without the body that may stand after it (bodies.ts). */
export function rowJson(row: string): string {
  const end = row.indexOf("\n", versionLength);
  return end < 0 ? row.slice(versionLength) : row.slice(versionLength, end);
}

export const rowVersion = (row: string | null): string => (row === null ? "" : row.slice(0, versionLength));

/**
 * `get` reads a value of Redis. Who loses a race for a row tries again in turn with the others of this process, so that a
 * row that everybody writes is contended for by processes, and not by all that goes on in them.
 */
export function createTransact(commit: Commit, get: (key: string) => Promise<string | null>, version: () => string): Transact {
  const turns = createTurns();

  /** `stale`: null when it is done, else the key of a row that was changed meanwhile. */
  async function tryOnce<T>(body: (tx: Transaction) => T | Promise<T>, hasTurn: boolean): Promise<{ result: T; stale: string | null }> {
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
          // Who has a turn waits for none: two could wait for each other.
          if (!hasTurn) await turns.over(key);
          const found = await get(key);
          // Two reads of one key at once: the first answer is the one that is held to.
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
      const end = await turns.take(lost);
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
