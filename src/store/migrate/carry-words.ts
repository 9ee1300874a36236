import { digestOf } from "../redis/plan-texts.ts";
import { readRetentionRow, retentionRowName } from "../redis/retention-row.ts";
import { createSwept } from "../sqlite/purge.ts";
import type { Carrier, CarrierParts } from "./carrier.ts";

/** The small tables, in one batch: what is said of all rows, and what is kept of routes, secrets, listeners and days. */
export function carryWords({ source, version }: CarrierParts): Carrier {
  const { db, names } = source;
  const plans = db.prepare<[], string>("SELECT verdicts FROM plans").pluck();
  const stopped = db.prepare<[], { route: number; at: number; reason: string }>("SELECT route, stopped_at AS at, reason FROM stopped");
  const proofs = db.prepare<[], { source: number; secret: number; events: number; duplicates: number; first_at: number; last_at: number }>(
    "SELECT * FROM proofs",
  );
  const cursors = db.prepare<[], { name: string; seq: number; moved_at: number }>("SELECT * FROM cursors");
  const calls = db.prepare<[], { account: number; day: number; polls: number; others: number }>("SELECT * FROM service_calls");
  const swept = createSwept(db);

  return {
    kind: "plans, cursors, counts",
    first: 1,
    last: 1,
    next(after, batch) {
      if (after > 0) return null;
      for (const verdicts of plans.all()) batch.hash("plans", digestOf(verdicts), verdicts);
      for (const { route, at, reason } of stopped.all()) batch.hash("stopped", names.nameOf(route), JSON.stringify({ at, reason }));
      for (const row of proofs.all()) {
        const proof = `${names.nameOf(row.source)}:${names.nameOf(row.secret)}`;
        batch.hash("proofs", `${proof}:first`, String(row.first_at), `${proof}:last`, String(row.last_at));
        if (row.events > 0) batch.hash("proofs", `${proof}:events`, String(row.events));
        if (row.duplicates > 0) batch.hash("proofs", `${proof}:duplicates`, String(row.duplicates));
      }
      for (const { name, seq, moved_at: movedAt } of cursors.all()) {
        batch.set(`cursor:${name}`, version() + String(seq));
        batch.list("cursors", movedAt, name);
      }
      for (const { account, day, polls, others } of calls.all()) {
        batch.hash(`calls:${names.nameOf(account)}`, `${day}:polls`, String(polls), `${day}:others`, String(others));
      }
      const [sweptEvents, sweptDeliveries] = [swept.before("events"), swept.before("deliveries")];
      if (sweptEvents !== null || sweptDeliveries !== null) {
        batch.set(retentionRowName, version() + JSON.stringify({ ...readRetentionRow(null), sweptEvents, sweptDeliveries }));
      }
      return 1;
    },
  };
}
