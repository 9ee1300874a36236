import type { Work } from "../sql/ops.ts";
import { connect, isConflict, isOwnFault, type PostgresSettings, type Session, unavailable } from "./connect.ts";
import { createPostgresRunner } from "./runner.ts";

/** How often a transaction is repeated after another one was first. */
const mostRepeats = 5;

const begin = { name: "begin", text: "BEGIN", values: [] };
/** Gives the transaction its number before it takes one from a sequence (horizon.ts). */
const number = { name: "number", text: "SELECT pg_current_xact_id()", values: [] };
const commit = { name: "commit", text: "COMMIT", values: [] };
const rollback = { name: "rollback", text: "ROLLBACK", values: [] };

export type Sessions = ReturnType<typeof createSessions>;

/** Connections for short transactions. Each has one transaction at a time. A broken one is replaced by the next command. */
export function createSessions(settings: PostgresSettings, most: number) {
  const free: Session[] = [];
  const waiting: ((session: Session | null) => void)[] = [];
  let open = 0;
  let isClosed = false;

  async function take(): Promise<Session> {
    for (;;) {
      const session = free.pop();
      if (session?.isBroken === false) return session;
      if (session !== undefined) open -= 1;
      if (isClosed) throw unavailable(new Error("the store is closed"));
      if (open < most) {
        open += 1;
        try {
          return await connect(settings, "hot");
        } catch (error) {
          open -= 1;
          waiting.shift()?.(null);
          throw error;
        }
      }
      if (session !== undefined) continue;
      const given = await new Promise<Session | null>((resolve) => waiting.push(resolve));
      if (given !== null) return given;
    }
  }

  function put(session: Session): void {
    if (session.isBroken || isClosed) {
      open -= 1;
      void session.end();
      waiting.shift()?.(null);
      return;
    }
    const next = waiting.shift();
    if (next === undefined) free.push(session);
    else next(session);
  }

  async function once<T>(session: Session, work: Work<T>): Promise<T> {
    // Both travel with the first operation of the command.
    const begun = Promise.all([session.query(begin), session.query(number)]);
    begun.catch(() => {});
    try {
      const result = await createPostgresRunner(session)(work);
      await begun;
      // A failed transaction is answered with ROLLBACK, and without an error.
      if ((await session.query(commit)).command !== "COMMIT") throw new Error("the transaction was rolled back");
      return result;
    } catch (error) {
      await session.query(rollback).catch(() => session.end());
      throw error;
    }
  }

  return {
    /**
     * One transaction. `make` begins the command: a repeated one begins anew, with new numbers. Rejects with
     * `StoreUnavailable` when the database cannot store, and otherwise with what the command throws.
     */
    async transact<T>(make: () => Work<T>): Promise<T> {
      for (let repeats = 0; ; repeats += 1) {
        const session = await take();
        try {
          return await once(session, make());
        } catch (error) {
          if (isConflict(error) && repeats < mostRepeats) continue;
          throw isOwnFault(error) ? error : unavailable(error);
        } finally {
          put(session);
        }
      }
    },
    /** Reads without a transaction: each statement sees what is committed when it begins. */
    async read<T>(work: Work<T>): Promise<T> {
      const session = await take();
      try {
        return await createPostgresRunner(session)(work);
      } catch (error) {
        throw isOwnFault(error) ? error : unavailable(error);
      } finally {
        put(session);
      }
    },
    async close(): Promise<void> {
      isClosed = true;
      for (const wake of waiting.splice(0)) wake(null);
      await Promise.all(free.splice(0).map((session) => session.end()));
    },
  };
}
