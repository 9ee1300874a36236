import { type Clock, systemClock } from "../../model/clock.ts";
import type { DatabaseFacts } from "../../model/database.ts";
import type { ReceivedEvent } from "../../model/event.ts";
import { refusalOfCopy } from "../copy.ts";
import { createCommands, createStore, type Database } from "../create-store.ts";
import {
  type AcceptOutcome,
  type DueDelivery,
  type ReleasedEvent,
  type Rules,
  type StoreHooks,
  StoreRefused,
  StoreUnavailable,
} from "../port.ts";
import { first, rows } from "../sql/ops.ts";
import { select, sql, typed } from "../sql/sql.ts";
import type { Held } from "../work/leases.ts";
import { dataId } from "../work/state-rows.ts";
import { createPostgresCommits } from "./commit.ts";
import { connect, isAnswered, type PostgresSettings, type Session } from "./connect.ts";
import { createNotices } from "./notices.ts";
import { createReader, noteHorizon } from "./reader.ts";
import { createPostgresRunner } from "./runner.ts";
import {
  adoptServer,
  checkKept,
  checkReadable,
  checkSchema,
  endPresence,
  notePresence,
  type Presence,
  type Primary,
  presentEveryMs,
  readDatabaseFacts,
  readPresences,
  readPrimary,
  restoreOrRestart,
} from "./server.ts";
import { createSessions, type SessionHooks, type Sessions } from "./sessions.ts";
import { createDatabaseClock, createWatch, placed, refusalOf, sharesSessions } from "./watch.ts";

interface OpenParts {
  readonly rules: Rules;
  readonly hooks: StoreHooks;
  readonly presence: Omit<Presence, "since">;
  readonly held: () => Held;
  readonly clock?: Clock | undefined;
}

/** Connections for commands. With those for reads and the watch, a process has ten at most. */
const most = { receive: 2, work: 2 };

export type PostgresStore = Awaited<ReturnType<typeof openPostgresStore>>;

/**
 * Throws `StoreRefused` for what no waiting repairs. While the database is unavailable, writes and
 * reads reject with `StoreUnavailable` within seconds.
 */
export async function openPostgresStore(
  settings: PostgresSettings,
  { rules, hooks, presence: given, held, clock: givenClock }: OpenParts,
) {
  const databaseClock = createDatabaseClock(systemClock);
  const clock = givenClock ?? databaseClock;
  const presence = { ...given, since: clock.now() };
  let seen = { last: 0, known: 0 };
  const toSessions: SessionHooks = {
    refusal: () => watch.refusal(),
    lost: (error) => watch.lost(error),
    refusalOn: (start) => admission.refusalOn(start),
  };
  const receive = createSessions(settings, { most: most.receive, hooks: toSessions });
  const work = createSessions(settings, { most: most.work, hooks: toSessions });
  const reader = createReader(settings, toSessions);
  const admission = createAdmission({ receive, presence, clock, horizon: reader.horizon, hooks });

  let used: Used | null = null;
  const watch = createWatch({
    settings,
    after: clock.after,
    async greet(session) {
      const setup = await connect(settings, "free");
      try {
        checkUnshared(setup, session);
        await (used === null ? checkSchema : checkKept)(setup, settings.schema);
        used = await checkData(setup, settings.schema, used);
      } finally {
        await setup.end();
      }
      await session.listen(channel, notices.receive);
    },
    async look(session) {
      let last = 0;
      await databaseClock.follow(async () => {
        const [found] = await createPostgresRunner(session).execute(rows(timeAndLast));
        last = found?.last ?? 0;
        return found?.now ?? systemClock.now();
      });
      // Nobody notifies of the end of a gap.
      const known = reader.horizon.known();
      if (last !== seen.last || known !== seen.known || known < last) notices.wakeStored();
      seen = { last, known };
      if (watch.refusal() === null && admission.isDue()) await admission.present();
    },
    probe: admission.present,
    recovered: () => hooks.committed(0, 0),
    failed(error) {
      for (const sessions of [receive, work, reader]) sessions.giveUp();
      hooks.failed(error);
    },
  });
  const channel = `wamid-relay ${settings.schema}`.slice(0, 63);
  const notices = createNotices({
    id: presence.id,
    isOwn: (route) => held()?.has(route) === true,
    send: async (payload) =>
      watch
        .session()
        ?.query({ name: "notify", text: "SELECT pg_notify($1, $2)", values: [channel, payload] }),
  });

  const commands = createCommands({ rules, writer: presence.id.slice(0, 8), held });
  const receiving: ReadonlySet<unknown> = new Set([
    commands.accept,
    commands.nameRequest,
    commands.quarantine,
    commands.release,
    commands.register,
  ]);
  const commits = createPostgresCommits(
    (kind) => (receiving.has(kind) ? receive : work),
    (kind) => admission.hooksOf(receiving.has(kind) ? kind : null, kind === commands.accept),
  );
  const database: Database = {
    run: (kind, item) => {
      const refusal = watch.refusal();
      return refusal === null ? commits.run(kind, item) : Promise.reject(refusal);
    },
    read: reader.single,
  };
  const store = createStore(database, { commands, rules });

  function noted<Outcome extends AcceptOutcome | null>(outcome: Outcome): Outcome {
    if (outcome?.result === "accepted") notices.stored();
    return outcome;
  }

  async function close(): Promise<void> {
    if (watch.refusal() === null) await Promise.all([store.flush(), store.leave()]).catch(() => {});
    await commits.idle();
    await notices.close();
    if (watch.refusal() === null)
      await receive.transact(() => endPresence(presence)).catch(() => {});
    await watch.close();
    await Promise.all([receive, work, reader].map((one) => one.close()));
  }

  try {
    await watch.opened();
  } catch (error) {
    await close();
    throw placed(error, settings);
  }

  return {
    store: {
      ...store,
      accept: async (event: ReceivedEvent, proxyRoute: string | null = null) =>
        noted(await store.accept(event, proxyRoute)),
      release: async (event: ReleasedEvent) => noted(await store.release(event)),
      async resume(route: string): Promise<boolean> {
        const resumed = await store.resume(route);
        notices.wake(route);
        return resumed;
      },
      read: reader.read,
      browse: reader.browse,
      inspecting: reader.inspecting,
      isShared: true,
      announce: (due: readonly DueDelivery[]) => notices.announce(due),
      onDue: notices.onDue,
      onStored: notices.onStored,
      isInPlace: () => watch.refusal() === null,
      close,
    },
    clock,
    read: reader.single,
    horizon: reader.horizon.look,
    ...factsFrom(reader),
  };
}

/** Then webhooks may try again: a load balancer sends none to a process that is not ready. */
const refusedForMs = 15_000;

interface AdmissionParts extends Pick<OpenParts, "hooks"> {
  readonly receive: Sessions;
  readonly presence: Presence;
  readonly clock: Clock;
  readonly horizon: Pick<ReturnType<typeof createReader>["horizon"], "known">;
}

/** Shows that this process is there, and admits transactions on the server that stores this. */
function createAdmission({ receive, presence, clock, horizon, hooks }: AdmissionParts) {
  /** Commands of webhooks that the database refused, and when. */
  const refused = new Map<unknown, number>();
  let presentAt = Number.NEGATIVE_INFINITY;
  let storedHorizon = 0;
  let server = 0;
  /** Why not on the server that answers. */
  let unadopted: StoreUnavailable | null = null;

  /**
   * A full disk, a lock or a permission may concern one table. So only the same command, a stored
   * event or time shows that it works again.
   */
  function committed(tookMs: number, writes: number): void {
    for (const [kind, at] of refused)
      if (performance.now() - at > refusedForMs) refused.delete(kind);
    if (refused.size === 0) hooks.committed(tookMs, writes);
  }

  return {
    refusalOn(start: number): StoreUnavailable | null {
      return start === server
        ? null
        : (unadopted ??
            new StoreUnavailable("PostgreSQL cannot be used now: another server has taken over"));
    },
    isDue: (): boolean => performance.now() - presentAt >= presentEveryMs,
    async present(): Promise<void> {
      const known = horizon.known();
      try {
        server = await receive.transact(function* () {
          const start = yield* adoptServer();
          yield* notePresence(presence, clock.now());
          if (known > storedHorizon) yield* noteHorizon(known);
          return start;
        }, true);
        storedHorizon = Math.max(storedHorizon, known);
        // This was refused, too: it was not one table.
        if (unadopted !== null) refused.clear();
        unadopted = null;
        presentAt = performance.now();
        committed(0, 0);
      } catch (error) {
        if (!(error instanceof StoreUnavailable && isAnswered(error.cause))) throw error;
        unadopted = error;
        hooks.failed(error);
      }
    },
    /** `kind`: a command of webhooks; null: another one. */
    hooksOf: (kind: unknown, storesEvents: boolean) => ({
      committed(tookMs: number, writes: number): void {
        if (storesEvents) refused.clear();
        else refused.delete(kind);
        committed(tookMs, writes);
      },
      failed(error: StoreUnavailable): void {
        if (kind !== null && isAnswered(error.cause)) refused.set(kind, performance.now());
        hooks.failed(error);
      },
    }),
  };
}

/** Of two connections that were open at once. A pooler may give both one session of the server. */
function checkUnshared(one: Session, other: Session): void {
  if (one.backend === other.backend && one.serverStart === other.serverStart)
    throw new StoreRefused(sharesSessions);
}

/** Throws `StoreRefused` when it cannot be read. */
export async function openPostgresForReading(settings: PostgresSettings) {
  const clock = createDatabaseClock(systemClock);
  const reader = createReader(settings, { refusal: () => null, lost() {}, refusalOn: () => null });
  try {
    const session = await connect(settings, "free");
    try {
      const beside = await connect(settings, "watch");
      await beside.end();
      checkUnshared(session, beside);
      await checkReadable(session, settings.schema);
    } finally {
      await session.end();
    }
    await clock.follow(
      async () => (await reader.single(first(timeAndLast)))?.now ?? systemClock.now(),
    );
  } catch (error) {
    await reader.close();
    const why = refusalOf(error) ?? new StoreRefused((error as Error).message, { cause: error });
    throw placed(why, settings);
  }
  const { browse, inspecting, single, close } = reader;
  return { read: browse, inspecting, look: single, now: clock.now, ...factsFrom(reader), close };
}

const factsFrom = ({ single, free }: ReturnType<typeof createReader>) => ({
  processes: (): Promise<Presence[]> => single(readPresences()),
  database: () => readDatabaseFacts(free, systemClock.now),
});

/** Throws `StoreUnavailable` when it does not answer. */
export async function readFactsAt(settings: PostgresSettings): Promise<DatabaseFacts> {
  const sessions = createSessions(settings, { most: 1, purpose: "free" });
  return readDatabaseFacts(sessions.read, systemClock.now).finally(sessions.close);
}

/** What this process has used: the address may lead elsewhere later. */
interface Used {
  /** Of the data. A standby has that of its primary. */
  readonly id: string | null;
  /** Null where the server does not say. */
  readonly primary: Primary | null;
}

/**
 * Throws `StoreRefused` for a part of a copy, a moved store, and for other data or an older primary
 * than `used`.
 */
async function checkData(session: Session, schema: string, used: Used | null): Promise<Used> {
  const { execute } = createPostgresRunner(session);
  const refusal = await execute(refusalOfCopy());
  if (refusal !== null) throw new StoreRefused(refusal);
  const id = await execute(dataId());
  if (used !== null && id !== used.id)
    throw new StoreRefused(
      `schema ${schema}: holds other data than those in use before; ${restoreOrRestart}`,
    );
  const primary = await readPrimary(session);
  const known = used?.primary ?? null;
  if (primary?.system === known?.system && (primary?.timeline ?? 0) < (known?.timeline ?? 0))
    throw new StoreRefused(
      `was the primary before the one in use (timeline ${primary?.timeline} after ${known?.timeline}), and what it stores may be lost; lead storage.url to the present primary, or restart the relay to use this one`,
    );
  return { id, primary: primary ?? known };
}

const timeAndLast = select({
  now: typed<number>(sql`extract(epoch FROM clock_timestamp())::float8 * 1000`),
  last: typed<number>(sql`CASE WHEN s.is_called THEN s.last_value ELSE 0 END`),
})`FROM events_seq s`;
