import { type Clock, growingWait } from "../../model/clock.ts";
import { postgresPlaceText, readPostgresUrl } from "../../model/postgres.ts";
import { faultCode, StoreLost, StoreMissing, StoreRefused, StoreUnavailable } from "../port.ts";
import { connect, type PostgresSettings, type Session, unavailable } from "./connect.ts";

/** While the database answers, and the bounds of the growing wait while it does not. */
const everyMs = { up: 500, first: 100, longest: 2_000 };

interface WatchParts {
  readonly settings: PostgresSettings;
  readonly after: Clock["after"];
  /** For each connection, before the database counts as up. */
  greet(session: Session): Promise<void>;
  look(session: Session): Promise<void>;
  probe(): Promise<void>;
  recovered(): void;
  /** From now on commands fail at once. May be called repeatedly. */
  failed(error: StoreUnavailable): void;
}

/**
 * Watches the database over a connection of its own. While it does not answer, only a probe is
 * sent, so that commands do not pile up behind a stuck server.
 */
export function createWatch({
  settings,
  after,
  greet,
  look,
  probe,
  recovered,
  failed,
}: WatchParts) {
  const first = Promise.withResolvers<void>();
  first.promise.catch(() => {});
  let session: Session | null = null;
  let failure: StoreUnavailable | null = unavailable(new Error("PostgreSQL is not connected yet"));
  let failures = 0;
  let isClosed = false;
  let isTicking = false;
  let isKnown = false;
  let cancel = (): void => {};

  async function connected(): Promise<Session> {
    // Another server may have taken over.
    if (session?.isBroken === false && failure === null) return session;
    await session?.end();
    session = null;
    const opened = await connect(settings, "watch");
    try {
      await greet(opened);
      if (isClosed) throw new Error("the store is closed");
    } catch (error) {
      await opened.end();
      throw error;
    }
    session = opened;
    return opened;
  }

  async function tick(): Promise<void> {
    isTicking = true;
    try {
      const open = await connected();
      await look(open);
      if (failure !== null) {
        await probe();
        failure = null;
        recovered();
      }
      failures = 0;
      known();
    } catch (error) {
      failures += 1;
      const refused = refusalOf(error);
      // The caller of `opened` reports it.
      if (refused !== null && !isKnown) return first.reject(refused);
      const Fault = error === refused ? StoreLost : StoreUnavailable;
      suspect(refused === null ? unavailable(error) : new Fault(refused.message, { cause: error }));
      known();
    } finally {
      isTicking = false;
      if (!isClosed)
        schedule(
          failures === 0 ? everyMs.up : growingWait(failures, everyMs.first, everyMs.longest),
        );
    }
  }

  function known(): void {
    isKnown = true;
    first.resolve();
  }

  function schedule(ms: number): void {
    cancel();
    cancel = after(ms, () => void tick());
  }

  function suspect(error: StoreUnavailable): void {
    failure = error;
    failed(error);
  }

  return {
    refusal: () => failure,
    session: () => session,
    lost(error: StoreUnavailable): void {
      if (isClosed) return;
      const isNews = failure === null;
      suspect(error);
      if (isNews && !isTicking) schedule(everyMs.first);
    },
    /** Rejects with `StoreRefused` when no waiting helps. */
    opened(): Promise<void> {
      void tick();
      return first.promise;
    },
    async close(): Promise<void> {
      isClosed = true;
      cancel();
      await session?.end();
    },
  };
}

const lacksPermission =
  "the user lacks a permission; grant it, or make the user the owner of the schema and its tables";

export const sharesSessions =
  "a connection pooler shares sessions among its clients; let it pool by session, or connect directly";

const refusedCodes: ReadonlyMap<string, string> = new Map([
  ["28P01", "the password is wrong"],
  ["28000", "the server refuses the user"],
  ["3D000", "there is no such database; create it"],
  ["42501", lacksPermission],
  // PostgreSQL skips a schema that the user may not use, and so finds no place for tables, or no
  // table.
  ["3F000", lacksPermission],
  // Another client's named statement, or none.
  ["42P05", sharesSessions],
  ["26000", sharesSessions],
  ["42P01", "a table was not found: the user lacks a permission for the schema, or it was removed"],
]);

/** What no waiting repairs. */
export function refusalOf(error: unknown): StoreRefused | null {
  if (error instanceof StoreRefused) return error;
  const cause = error instanceof StoreUnavailable ? error.cause : error;
  const { message } = cause as Error;
  const why = refusedCodes.get(faultCode(cause));
  if (why !== undefined) return new StoreRefused(`${why} (${message})`, { cause });
  if (
    /^(?:ERR_TLS|ERR_SSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO)/.test(faultCode(cause)) ||
    /SSL/.test(message)
  )
    return new StoreRefused(`TLS fails: ${message}`, { cause });
  return null;
}

/** Says which database. */
export function placed(error: unknown, { url }: PostgresSettings): unknown {
  if (!(error instanceof StoreRefused)) return error;
  const place = readPostgresUrl(url);
  const Refused = error instanceof StoreMissing ? StoreMissing : StoreRefused;
  return new Refused(
    `${place === null ? "PostgreSQL" : postgresPlaceText(place)}: ${error.message}`,
    { cause: error },
  );
}

/**
 * The database's time, for everything that processes compare: the clocks of their hosts differ and
 * may be set. That of `machine` until the first answer; then it advances with `steady` (ms,
 * monotonic).
 */
export function createDatabaseClock(
  machine: Clock,
  steady: () => number = () => performance.now(),
) {
  /** The database's time when `steady` was 0. */
  let began: number | null = null;
  return {
    now: () => (began === null ? machine.now() : Math.floor(steady() + began)),
    after: machine.after,
    /** One round trip. Do it on every connection and at intervals, because clocks drift. */
    async follow(readTime: () => Promise<number>): Promise<void> {
      const sentAt = steady();
      const measured = await readTime();
      // The server read its clock between request and answer. Within these bounds the known offset
      // stays, so that slow answers do not move it.
      const least = measured - steady();
      const most = measured - sentAt;
      began = Math.min(most, Math.max(least, began ?? (least + most) / 2));
    },
  };
}
