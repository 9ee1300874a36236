// Slow on version 14, because a second server starts for it.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { openSession, type Session } from "../../harness/postgres-session.ts";
import { type Postgres, type PostgresVersion, startPostgres } from "../../setup/postgres.ts";

horizonTests(18, []);
horizonTests(14, ["slow"]);

const ownId = "SELECT pg_current_xact_id()";
const insert = "INSERT INTO events VALUES ($1, $2)";

/**
 * Reads in the order of `seq`, up to the horizon: the greatest `seq` below which nothing can appear any more. Returns all
 * that was read so far. A gap is final once every transaction that may fill it has ended. Such a transaction has an id before it takes a `seq`.
 * So the reader takes an id after it has read the last `seq`, and waits until no open transaction has a smaller one.
 */
function createReader(session: Session, takeMark = ownId): () => Promise<number[]> {
  const marks: { last: number; id: number }[] = [];
  const seen: number[] = [];
  let known = 0;
  let cursor = 0;
  const look = async () => {
    const last = await session.number("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM events_seq");
    const oldest = await session.number("SELECT pg_snapshot_xmin(pg_current_snapshot())");
    while (marks[0] !== undefined && marks[0].id <= oldest) known = Math.max(known, marks.shift()?.last ?? 0);
    // A run without gaps is final, whatever is open.
    const between = await session.number("SELECT count(*) FROM events WHERE seq > $1 AND seq <= $2", [known, last]);
    if (between === last - known) known = last;
    else if (marks.length < 4) marks.push({ last, id: await session.number(takeMark) });
  };
  return async () => {
    await look();
    const rows = await session.rows<{ seq: number }>("SELECT seq::int FROM events WHERE seq > $1 AND seq <= $2 ORDER BY seq", [
      cursor,
      known,
    ]);
    cursor = known;
    seen.push(...rows.map(({ seq }) => seq));
    return [...seen];
  };
}

/** Ids of transactions are the whole server's, so a test that compares them needs a server of its own, where nothing else runs. */
function horizonTests(version: PostgresVersion, tags: string[]): void {
  describe(`PostgreSQL ${version}`, { tags }, () => {
    let server: Postgres;
    let sessions: Session[];
    let first: Session;
    let second: Session;
    let reader: Session;

    beforeAll(async () => {
      server = await startPostgres({ version, settings: { autovacuum: "off", checkpoint_timeout: "1d" } });
    });
    afterAll(() => server.stop());
    beforeEach(async () => {
      sessions = await Promise.all([openSession(server.url), openSession(server.url), openSession(server.url)]);
      [first, second, reader] = sessions as [Session, Session, Session];
      await reader.rows("CREATE SEQUENCE events_seq");
      await reader.rows("CREATE TABLE events (seq bigint PRIMARY KEY, id text UNIQUE)");
    });
    afterEach(async () => {
      for (const session of sessions) await session.rows("ROLLBACK");
      await reader.rows("DROP TABLE events");
      await reader.rows("DROP SEQUENCE events_seq");
      for (const session of sessions) await session[Symbol.asyncDispose]();
    });

    const begin = async (session: Session) => {
      await session.rows("BEGIN");
      await session.rows(ownId);
    };
    const takeNumber = (session: Session) => session.number("SELECT nextval('events_seq')");
    const store = async (session: Session, seq: number, id = `id ${seq}`) => {
      await session.rows(insert, [seq, id]);
      await session.rows("COMMIT");
    };
    /** The transaction with the greater id takes the smaller number and stays open; the other commits behind the gap. */
    const openGap = async (beginLate = begin) => {
      await begin(first);
      await beginLate(second);
      const gap = await takeNumber(second);
      await store(first, await takeNumber(first));
      return gap;
    };
    const readTwice = async (read: () => Promise<number[]>) => {
      await read();
      return read();
    };

    test("waits at a gap that an open transaction fills", async () => {
      const read = createReader(reader);
      const gap = await openGap();
      expect(await readTwice(read)).toEqual([]);
      await store(second, gap);
      expect(await read()).toEqual([1, 2]);
    });

    test("passes a gap that nobody fills", async () => {
      const read = createReader(reader);
      await openGap();
      expect(await readTwice(read)).toEqual([]);
      await second.rows("ROLLBACK");
      expect(await read()).toEqual([2]);
    });

    test("control: skips an event when the mark is xmax, which is the latest completed id plus one", async () => {
      const read = createReader(reader, "SELECT pg_snapshot_xmax(pg_current_snapshot())");
      const gap = await openGap();
      expect(await readTwice(read)).toEqual([2]);
      await store(second, gap);
      expect(await readTwice(read)).toEqual([2]);
    });

    test("control: skips an event when its transaction takes the number before its id", async () => {
      const read = createReader(reader);
      // The first number is logged together with the next 32, which gives its transaction an id. The others are not.
      await takeNumber(reader);
      const gap = await openGap(async (session) => {
        await session.rows("BEGIN");
      });
      expect(await readTwice(read)).toEqual([3]);
      await store(second, gap);
      expect(await readTwice(read)).toEqual([3]);
    });

    /** A batch of two events fails, because another stored one of them meanwhile. Returns the numbers it had. */
    const failBatch = async () => {
      await begin(second);
      const numbers = [await takeNumber(second), await takeNumber(second)] as const;
      await begin(first);
      await store(first, await takeNumber(first), "known");
      await second.rows(insert, [numbers[0], "new"]);
      await expect(second.rows(insert, [numbers[1], "known"])).rejects.toMatchObject({ code: "23505" });
      await second.rows("ROLLBACK");
      return numbers;
    };

    test("reads a batch that is repeated with new numbers", async () => {
      const read = createReader(reader);
      await failBatch();
      expect(await readTwice(read)).toEqual([3]);
      await begin(second);
      await store(second, await takeNumber(second), "new");
      expect(await read()).toEqual([3, 4]);
    });

    test("control: skips a batch that is repeated with its old numbers", async () => {
      const read = createReader(reader);
      const [kept] = await failBatch();
      expect(await readTwice(read)).toEqual([3]);
      await begin(second);
      await store(second, kept, "new");
      expect(await readTwice(read)).toEqual([3]);
    });

    /** A number that is taken and given up, and a later event. */
    const leaveGap = async () => {
      await begin(first);
      await takeNumber(first);
      await first.rows("ROLLBACK");
      await begin(first);
      await store(first, await takeNumber(first));
    };

    test("passes a gap while a snapshot is open elsewhere", async () => {
      const read = createReader(reader);
      await second.rows("BEGIN ISOLATION LEVEL REPEATABLE READ");
      await second.rows("SELECT count(*) FROM events");
      await leaveGap();
      expect(await readTwice(read)).toEqual([2]);
    });

    test("waits at a gap, and only there, while a transaction that has written is open elsewhere", async () => {
      const read = createReader(reader);
      await begin(second);
      await begin(first);
      await store(first, await takeNumber(first));
      expect(await read()).toEqual([1]);
      await leaveGap();
      expect(await readTwice(read)).toEqual([1]);
      await second.rows("ROLLBACK");
      expect(await read()).toEqual([1, 3]);
    });
  });
}
