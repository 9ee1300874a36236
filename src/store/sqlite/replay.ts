import type { DueDelivery } from "../planned.ts";
import type { Replayed, ReplayFilter, Retried } from "../replay-filters.ts";
import { stateCode } from "./codes.ts";
import { createHasOpen } from "./has-open.ts";
import type { Names } from "./names.ts";
import type { Db } from "./open.ts";
import { createReplayWalk } from "./replay-walk.ts";

interface Row {
  event: number;
  route: number;
  subject: number | null;
  state: number;
}

/** Settled deliveries made to wait again, under their old ids, in order. */
export function createReplay(db: Db, names: Names) {
  const hasOpen = createHasOpen(db);
  const one = db.prepare<[number, number], Row>("SELECT event, route, subject, state FROM deliveries WHERE event = ? AND route = ?");
  const again = db.prepare<[number, number | null, number, number]>(
    "UPDATE deliveries SET state = ?, next_at = ?, spent = 0, replays = replays + 1, settled_at = NULL, reason = NULL WHERE event = ? AND route = ?",
  );
  const sooner = db.prepare<[number, number, number]>("UPDATE deliveries SET next_at = ? WHERE event = ? AND route = ?");

  function requeue(row: Row, at: number): DueDelivery | null {
    const held = row.subject !== null && hasOpen(row.subject, row.route);
    again.run(held ? stateCode.held : stateCode.waiting, held ? null : at, row.event, row.route);
    return held ? null : { route: names.nameOf(row.route), event: row.event, at };
  }

  return {
    /** Finds what a filter means, a few rows a call; writes nothing. */
    look: createReplayWalk(db, names),
    /** Those of `found` that are still settled wait again. For inside a transaction. */
    replay(found: readonly { event: number; route: string }[], states: ReplayFilter["states"], at: number): Replayed {
      const due: DueDelivery[] = [];
      let replayed = 0;
      const codes = states.map((state) => stateCode[state]);
      for (const { event, route } of found) {
        const id = names.find("route", route);
        const row = id === null ? undefined : one.get(event, id);
        // Since it was found, somebody may have retried it or retention taken it away.
        if (row === undefined || !codes.includes(row.state)) continue;
        const delivery = requeue(row, at);
        if (delivery !== null) due.push(delivery);
        replayed += 1;
      }
      return { replayed, due };
    },
    /** One delivery, retried whatever its state: a settled one waits again, a waiting one goes out at once. For inside a transaction. */
    retry(event: number, route: string, at: number): Retried | null {
      const id = names.find("route", route);
      const row = id === null ? undefined : one.get(event, id);
      if (row === undefined) return null;
      if (row.state === stateCode.held) return { state: "held", due: null };
      if (row.state === stateCode.waiting) {
        sooner.run(at, row.event, row.route);
        return { state: "waiting", due: { route, event, at } };
      }
      const due = requeue(row, at);
      return { state: due === null ? "held" : "waiting", due };
    },
  };
}
