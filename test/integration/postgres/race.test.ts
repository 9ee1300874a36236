// Slow on version 14, because a second server starts for it.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { openSession, type Session, waitsForLock } from "../../harness/postgres-session.ts";
import { createDatabase, type Database } from "../../setup/database.ts";
import type { PostgresVersion } from "../../setup/postgres.ts";

const waiting = 0;
const held = 1;

/** Accept holds a delivery behind the lane's first row, in whatever state, and locks that row. */
const findOpen = "SELECT event FROM queue WHERE lane = 1 ORDER BY event LIMIT 1 FOR SHARE";
const remove = "DELETE FROM queue WHERE lane = 1 AND event = 1";
/** Settle looks for the next delivery in a statement after the one that removes: its snapshot is newer than the lock. */
const findNext = `SELECT min(event) AS event FROM queue WHERE lane = 1 AND state = ${held}`;

raceTests(18, []);
raceTests(14, ["slow"]);

function raceTests(version: PostgresVersion, tags: string[]): void {
  describe(`PostgreSQL ${version}`, { tags }, () => {
    let database: Database;
    let accepting: Session;
    let settling: Session;
    let observer: Session;

    beforeAll(async () => {
      database = await createDatabase(version);
    });
    afterAll(() => database.drop());
    beforeEach(async () => {
      [accepting, settling, observer] = await Promise.all([
        openSession(database.url),
        openSession(database.url),
        openSession(database.url),
      ]);
      await observer.rows("CREATE TABLE queue (lane bigint, event bigint, state smallint, PRIMARY KEY (lane, event))");
      await insert(observer, 1, waiting);
      await accepting.rows("BEGIN");
      await settling.rows("BEGIN");
    });
    afterEach(async () => {
      for (const session of [accepting, settling]) await session[Symbol.asyncDispose]();
      await observer.rows("DROP TABLE queue");
      await observer[Symbol.asyncDispose]();
    });

    const insert = (session: Session, event: number, state: number) => session.rows("INSERT INTO queue VALUES (1, $1, $2)", [event, state]);
    const release = (event: number | null) => settling.rows(`UPDATE queue SET state = ${waiting} WHERE lane = 1 AND event = $1`, [event]);
    /** What accept stores after it looked for an open delivery. */
    const hold = async (event: number, open: readonly unknown[]) => {
      await insert(accepting, event, open.length > 0 ? held : waiting);
      await accepting.rows("COMMIT");
    };
    const settle = async () => {
      await settling.rows(remove);
      const [next] = await settling.rows<{ event: number | null }>(findNext);
      await release(next?.event ?? null);
      await settling.rows("COMMIT");
    };
    const queue = async () =>
      (await observer.rows("SELECT event::int, state FROM queue ORDER BY event")).map(({ event, state }) => [event, state]);

    test("a delivery that is held while the one before it settles is released", async () => {
      const open = await accepting.rows(findOpen);
      const settled = settle();
      await waitsForLock(settling, observer);
      await hold(2, open);
      await settled;
      expect(await queue()).toEqual([[2, waiting]]);
    });

    test("control: it stays held for ever when accept does not lock the open row", async () => {
      const open = await accepting.rows(findOpen.replace(" FOR SHARE", ""));
      await settle();
      await hold(2, open);
      expect(await queue()).toEqual([[2, held]]);
    });

    test("control: it stays held for ever when the statement that removes also looks for the next", async () => {
      const open = await accepting.rows(findOpen);
      const removed = settling.rows<{ event: number | null }>(`${remove} RETURNING (${findNext}) AS event`);
      await waitsForLock(settling, observer);
      await hold(2, open);
      await release((await removed)[0]?.event ?? null);
      await settling.rows("COMMIT");
      expect(await queue()).toEqual([[2, held]]);
    });

    test("a delivery is not held when the one before it settles first", async () => {
      await settling.rows(remove);
      const found = accepting.rows(findOpen);
      await waitsForLock(accepting, observer);
      await settling.rows("COMMIT");
      await hold(2, await found);
      expect(await queue()).toEqual([[2, waiting]]);
    });

    const acceptWhileSecondIsReleased = async (find: string) => {
      await insert(observer, 2, held);
      await settling.rows(remove);
      await release(2);
      const found = accepting.rows(find);
      await waitsForLock(accepting, observer);
      await settling.rows("COMMIT");
      await hold(3, await found);
    };

    test("a delivery is held behind one that is released at the same moment", async () => {
      await acceptWhileSecondIsReleased(findOpen);
      expect(await queue()).toEqual([
        [2, waiting],
        [3, held],
      ]);
    });

    test("control: two of a lane are sent at once when accept looks only at rows that are not held", async () => {
      await acceptWhileSecondIsReleased(findOpen.replace("ORDER", `AND state <> ${held} ORDER`));
      expect(await queue()).toEqual([
        [2, waiting],
        [3, waiting],
      ]);
    });
  });
}
