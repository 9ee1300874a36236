import type { StoreUnavailable } from "../port.ts";
import type { Work } from "../sql/ops.ts";
import {
  connect,
  isAnswered,
  isConflict,
  isOwnEnd,
  isOwnFault,
  isReadOnly,
  type PostgresSettings,
  type Purpose,
  type Session,
  unavailable,
} from "./connect.ts";
import { createPostgresRunner } from "./runner.ts";

const mostRepeats = 5;

const begin = { name: "begin", text: "BEGIN", values: [] };
const beginSnapshot = {
  name: "snapshot",
  text: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
  values: [],
};
const commit = { name: "commit", text: "COMMIT", values: [] };
const rollback = { name: "rollback", text: "ROLLBACK", values: [] };

/** A connection that may not write is replaced after this time. */
const readOnlyMs = 1_000;
const waits = { most: 2_000, longestMs: 5_000 };

export interface SessionHooks {
  refusal(): StoreUnavailable | null;
  lost(error: StoreUnavailable): void;
  refusalOn(serverStart: number): StoreUnavailable | null;
}

const noHooks: SessionHooks = { refusal: () => null, lost() {}, refusalOn: () => null };

interface SessionParts {
  readonly most: number;
  readonly purpose?: Exclude<Purpose, "watch">;
  readonly hooks?: SessionHooks;
}

export type Sessions = ReturnType<typeof createSessions>;

/** Connections that are lent to one caller at a time. */
function createPool(settings: PostgresSettings, { most, purpose, hooks }: Required<SessionParts>) {
  const free: Session[] = [];
  const busy = new Set<Session>();
  const waiting = new Set<(session: Session | null) => void>();
  let open = 0;
  let isClosed = false;

  async function take(isProbe: boolean): Promise<Session> {
    const session = await next(isProbe);
    busy.add(session);
    return session;
  }

  /** For a transaction. Connections from before a failover are replaced. */
  async function takeToWrite(): Promise<Session> {
    for (let left = most; ; left -= 1) {
      const session = await take(false);
      const refusal = hooks.refusalOn(session.serverStart);
      if (refusal === null) return session;
      await session.end();
      put(session);
      if (left > 0) continue;
      if (!isAnswered(refusal.cause)) hooks.lost(refusal);
      throw refusal;
    }
  }

  async function next(isProbe: boolean): Promise<Session> {
    for (;;) {
      if (isClosed) throw unavailable(new Error("the store is closed"));
      const refusal = isProbe ? null : hooks.refusal();
      if (refusal !== null) throw refusal;
      const session = free.pop();
      if (session?.isBroken === false) return session;
      if (session !== undefined) {
        open -= 1;
        void session.end();
      }
      if (open < most) {
        open += 1;
        try {
          return await connect(settings, purpose);
        } catch (error) {
          open -= 1;
          hooks.lost(error as StoreUnavailable);
          wakeNext(null);
          throw error;
        }
      }
      if (session !== undefined) continue;
      const given = await givenBack();
      if (given !== null) return given;
    }
  }

  function givenBack(): Promise<Session | null> {
    if (waiting.size >= waits.most)
      throw unavailable(new Error("too many commands wait for a connection to PostgreSQL"));
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => {
        waiting.delete(wake);
        reject(
          unavailable(
            new Error(`no connection to PostgreSQL was free within ${waits.longestMs / 1000} s`),
          ),
        );
      }, waits.longestMs);
      const wake = (session: Session | null) => {
        clearTimeout(late);
        waiting.delete(wake);
        resolve(session);
      };
      waiting.add(wake);
    });
  }

  function wakeNext(session: Session | null): boolean {
    for (const wake of waiting) {
      wake(session);
      return true;
    }
    return false;
  }

  function put(session: Session): void {
    busy.delete(session);
    if (session.isBroken || isClosed) {
      open -= 1;
      void session.end();
      wakeNext(null);
    } else if (!wakeNext(session)) free.push(session);
  }

  return {
    take,
    takeToWrite,
    put,
    /**
     * Callers that wait get an error. Idle connections may lead to a server that is no longer the
     * primary.
     */
    giveUp(): void {
      for (const session of free.splice(0)) {
        open -= 1;
        void session.end();
      }
      for (const wake of [...waiting]) wake(null);
    },
    async close(): Promise<void> {
      isClosed = true;
      for (const wake of [...waiting]) wake(null);
      await Promise.all([...free.splice(0), ...busy].map((session) => session.end()));
    },
  };
}

function reported(
  error: unknown,
  { isBroken }: Session,
  { lost }: Pick<SessionHooks, "lost">,
): unknown {
  if (isOwnFault(error)) return error;
  const fault = unavailable(error);
  // Reads of a connection given up fail after the server answers again: they are no news of it.
  if (isBroken && !isOwnEnd(error)) lost(fault);
  return fault;
}

export function createSessions(
  settings: PostgresSettings,
  { most, purpose = "hot", hooks = noHooks }: SessionParts,
) {
  const { take, takeToWrite, put, giveUp, close } = createPool(settings, { most, purpose, hooks });

  async function once<T>(session: Session, work: Work<T>): Promise<T> {
    // It travels with the first operation, and the end with the last writes.
    const begun = session.query(begin);
    begun.catch(() => {});
    const { execute, written } = createPostgresRunner(session);
    try {
      const result = await execute(work);
      const [, , { command }] = await Promise.all([begun, written(), session.query(commit)]);
      // A failed transaction is answered with ROLLBACK, and without an error.
      if (command !== "COMMIT") throw new Error("the transaction was rolled back");
      return result;
    } catch (error) {
      await session.query(rollback).catch(() => session.end());
      // The statements after the first that failed only say that one did.
      await begun;
      await written();
      throw error;
    }
  }

  async function reading<T>(use: (session: Session) => Promise<T>): Promise<T> {
    const session = await take(false);
    try {
      return await use(session);
    } catch (error) {
      throw reported(error, session, hooks);
    } finally {
      put(session);
    }
  }

  return {
    /**
     * `make` begins a repeated command anew, with new numbers. Rejects with `StoreUnavailable` when
     * the database cannot store, and otherwise with what the command throws. `isProbe`: sent while
     * nothing else is.
     */
    async transact<T>(make: () => Work<T>, isProbe = false): Promise<T> {
      for (let repeats = 0; ; repeats += 1) {
        const session = isProbe ? await take(true) : await takeToWrite();
        try {
          return await once(session, make());
        } catch (error) {
          if (isConflict(error) && repeats < mostRepeats) continue;
          const fault = reported(error, session, hooks);
          // Once the default is reset, only new connections may write.
          if (isReadOnly(error) && performance.now() - session.openedAt > readOnlyMs)
            await session.end();
          throw fault;
        } finally {
          put(session);
        }
      }
    },
    /** Each statement sees what is committed when it begins. */
    read: <T>(work: Work<T>): Promise<T> =>
      reading((session) => createPostgresRunner(session).execute(work)),
    /** All statements see what is committed when the first one begins. */
    readSnapshot: <T>(work: Work<T>): Promise<T> =>
      reading(async (session) => {
        try {
          await session.query(beginSnapshot);
          const result = await createPostgresRunner(session).execute(work);
          await session.query(commit);
          return result;
        } catch (error) {
          await session.query(rollback).catch(() => session.end());
          throw error;
        }
      }),
    giveUp,
    close,
  };
}

/** Reads travel together on one connection, and do not wait for each other's answers. */
export function createReads(settings: PostgresSettings, hooks: Omit<SessionHooks, "refusalOn">) {
  let opening: Promise<Session> | null = null;
  let isClosed = false;

  async function session(): Promise<Session> {
    const refusal = isClosed ? unavailable(new Error("the store is closed")) : hooks.refusal();
    if (refusal !== null) throw refusal;
    const known = opening;
    if (known !== null && !(await known).isBroken) return known;
    // Another read may have replaced the broken one meanwhile.
    if (opening !== known) return session();
    const begun = connect(settings, "hot");
    begun.catch((error) => {
      if (opening === begun) opening = null;
      hooks.lost(error);
    });
    opening = begun;
    return begun;
  }

  return {
    async read<T>(work: Work<T>): Promise<T> {
      const open = await session();
      try {
        return await createPostgresRunner(open).execute(work);
      } catch (error) {
        throw reported(error, open, hooks);
      }
    },
    giveUp(): void {
      void opening?.then((open) => open.end()).catch(() => {});
      opening = null;
    },
    async close(): Promise<void> {
      isClosed = true;
      await opening?.then((open) => open.end()).catch(() => {});
    },
  };
}
