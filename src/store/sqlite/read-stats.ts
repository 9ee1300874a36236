import type { DeliveryState } from "../../model/delivery.ts";
import type { Disposition } from "../../model/plan.ts";
import type { Stats } from "../reading.ts";
import type { QuarantineCount, RouteBacklog, StoredSecretUse, Unplanned } from "../views.ts";
import type { Db } from "./file.ts";
import { dispositionList, type Names, stateCode, stateList } from "./names.ts";
import { createBounds } from "./query.ts";

/** Reads counts that are kept, or taken by index. `countStats` counts all rows. */
export function createReadStats(db: Db, names: Names) {
  const waiting = db.prepare<[], { route: number; n: number; oldest: number | null }>(
    `SELECT route, count(*) AS n, min(next_at) AS oldest FROM deliveries WHERE state = ${stateCode.waiting} GROUP BY route`,
  );
  const held = db.prepare<[], { route: number; n: number }>(
    `SELECT route, count(*) AS n FROM deliveries WHERE state <= 1 AND state = ${stateCode.held} AND subject IS NOT NULL GROUP BY route`,
  );
  const dead = db.prepare<[], { route: number; n: number }>(
    `SELECT route, count(*) AS n FROM deliveries WHERE state = ${stateCode.dead} GROUP BY route`,
  );
  const deadSince = db.prepare<[number], { at: number }>(
    `SELECT settled_at AS at FROM deliveries WHERE state = ${stateCode.dead} AND route = ? ORDER BY event LIMIT 1`,
  );
  const stopped = db.prepare<[], { route: number; reason: string; at: number }>("SELECT route, reason, stopped_at AS at FROM stopped");
  // The literal lets SQLite use the index of quarantined events.
  const quarantined = db.prepare<[], { events: number; oldestAt: number | null }>(
    `SELECT count(*) AS events, min(received_at) AS oldestAt FROM events WHERE disposition = ${dispositionList.indexOf("quarantined")}`,
  );

  const secretUses = db.prepare<[], Omit<StoredSecretUse, "source" | "secret"> & { source: number; secret: number }>(
    "SELECT source, secret, events, duplicates, first_at AS firstAt, last_at AS lastAt FROM secret_uses ORDER BY source, secret",
  );

  return {
    /** How often each secret verified a webhook. */
    secretUses: (): StoredSecretUse[] =>
      secretUses.all().map(({ source, secret, ...sums }) => ({ source: names.nameOf(source), secret: names.nameOf(secret), ...sums })),
    backlog(): RouteBacklog[] {
      const routes = new Map<number, Omit<RouteBacklog, "route">>();
      const of = (route: number): Omit<RouteBacklog, "route"> => {
        const known = routes.get(route);
        if (known !== undefined) return known;
        const entry: Omit<RouteBacklog, "route"> = {
          waiting: 0,
          held: 0,
          dead: 0,
          oldestDueAt: null,
          deadSince: null,
          stopped: null,
          stoppedAt: null,
        };
        routes.set(route, entry);
        return entry;
      };
      for (const row of waiting.all()) Object.assign(of(row.route), { waiting: row.n, oldestDueAt: row.oldest });
      for (const row of held.all()) of(row.route).held = row.n;
      for (const row of dead.all()) Object.assign(of(row.route), { dead: row.n, deadSince: deadSince.get(row.route)?.at ?? null });
      for (const row of stopped.all()) Object.assign(of(row.route), { stopped: row.reason, stoppedAt: row.at });
      return [...routes].map(([route, entry]) => ({ route: names.nameOf(route), ...entry }));
    },
    /** None: the transaction that accepts an event plans it. */
    unplanned: (): Unplanned => ({ events: 0, oldestAt: null }),
    quarantine: (): QuarantineCount => quarantined.get() ?? { events: 0, oldestAt: null },
  };
}

/** Seqs per slice: some tens of milliseconds. */
const sliceSeqs = 50_000;

/** Counts every row, one slice of events with their deliveries at a time. It yields between two short transactions. */
export function* countStats(db: Db): Generator<void, Stats> {
  const range = "BETWEEN ? AND ?";
  const byDisposition = db.prepare<[number, number], { disposition: number; n: number; duplicates: number }>(
    `SELECT disposition, count(*) AS n, sum(duplicates) AS duplicates FROM events WHERE seq ${range} GROUP BY disposition`,
  );
  const byState = db.prepare<[number, number], { state: number; n: number }>(
    `SELECT state, count(*) AS n FROM deliveries WHERE event ${range} GROUP BY state`,
  );
  const attempts = db.prepare<[number, number], { made: number; failed: number }>(
    `SELECT count(*) AS made, count(*) FILTER (WHERE error IS NOT NULL OR status NOT BETWEEN 200 AND 299) AS failed FROM attempts
     WHERE event ${range}`,
  );
  const dispositions = Object.fromEntries(dispositionList.map((word) => [word, 0])) as Record<Disposition, number>;
  const deliveries = Object.fromEntries(stateList.map((word) => [word, 0])) as Record<DeliveryState, number>;
  const sum = { duplicates: 0, made: 0, failed: 0 };

  const { oldest, newest: last } = createBounds(db, "events")() ?? { oldest: 1, newest: 0 };
  for (let from = oldest; from <= last; from += sliceSeqs) {
    // Events that arrived since the start are not counted.
    const to = from + sliceSeqs > last ? last : from + sliceSeqs - 1;
    db.transaction(() => {
      for (const row of byDisposition.all(from, to)) {
        const word = dispositionList[row.disposition];
        if (word !== undefined) dispositions[word] += row.n;
        sum.duplicates += row.duplicates;
      }
      for (const row of byState.all(from, to)) {
        const word = stateList[row.state];
        if (word !== undefined) deliveries[word] += row.n;
      }
      const { made = 0, failed = 0 } = attempts.get(from, to) ?? {};
      sum.made += made;
      sum.failed += failed;
    })();
    yield;
  }
  return { dispositions, duplicates: sum.duplicates, deliveries, attempts: { made: sum.made, failed: sum.failed } };
}
