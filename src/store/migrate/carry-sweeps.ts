import { writeSweepRow } from "../redis/sweep-row.ts";
import { boundsOf, type Carrier, type CarrierParts, rowsAtOnce } from "./carrier.ts";

interface Row {
  seq: number;
  account: number;
  through: number;
  started_at: number;
  asked: number;
  ended_at: number | null;
}

/** Sweeps: an open one goes on where it was, and of the others the calls they made are still counted. */
export function carrySweeps({ source, version }: CarrierParts): Carrier {
  const { db, names } = source;
  const select = db.prepare<[number, number], Row>("SELECT * FROM sweeps WHERE seq > ? ORDER BY seq LIMIT ?");
  return {
    kind: "sweeps",
    ...boundsOf(source, "sweeps"),
    next(after, batch) {
      const rows = select.all(after, rowsAtOnce);
      for (const { seq, account: accountId, through, started_at: startedAt, asked, ended_at: endedAt } of rows) {
        const account = names.nameOf(accountId);
        // Those of this engine are named by texts: no two are alike.
        if (endedAt === null) batch.set(`sw:${account}`, version() + writeSweepRow({ seq, through, startedAt, asked }));
        else if (asked > 0) batch.list(`sweeps:${account}`, endedAt, `${seq}:${asked}`);
      }
      return rows.at(-1)?.seq ?? null;
    },
  };
}
