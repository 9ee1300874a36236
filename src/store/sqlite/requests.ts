import type { EventId } from "../../event/ids.ts";
import type { Db } from "./open.ts";

/** Each request takes up to so many with it whose time is over: more than come, so that they do not pile up. */
const purgedAtOnce = 4;

/** Which event a signed automation request is. For inside a transaction. */
export function createRequests(db: Db) {
  const known = db
    .prepare<[string, number, number], string>("SELECT id FROM requests WHERE request = ? AND until > ? AND until <= ?")
    .pluck();
  const put = db.prepare<[string, string, number]>("INSERT OR REPLACE INTO requests (request, id, until) VALUES (?, ?, ?)");
  const purge = db.prepare<[number]>(
    `DELETE FROM requests WHERE seq IN (SELECT seq FROM requests WHERE until <= ? ORDER BY until LIMIT ${purgedAtOnce})`,
  );

  return function nameRequest(request: string, id: EventId, now: number, forMs: number): EventId {
    // A time further ahead was written under a wrong clock.
    const same = known.get(request, now, now + forMs);
    if (same !== undefined) return same as EventId;
    purge.run(now);
    put.run(request, id, now + forMs);
    return id;
  };
}
