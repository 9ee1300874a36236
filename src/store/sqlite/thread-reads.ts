import { setTimeout as wait } from "node:timers/promises";
import type { QualityQuery, SeriesQuery } from "../../model/history.ts";
import { audit } from "../audit/audit.ts";
import { stats } from "../audit/stats.ts";
import { readSeries } from "../read/history.ts";
import { readQuality } from "../read/quality.ts";
import { createReading } from "../read/reading.ts";
import type { AuditOrder, AuditProgress } from "../reading.ts";
import { tables } from "../schema/tables.ts";
import type { Work } from "../sql/ops.ts";
import { copyStore } from "./copy.ts";
import { type Db, damageOf } from "./file.ts";
import { inSnapshot } from "./snapshot.ts";

export interface ThreadParts {
  readonly db: Db;
  readonly read: <T>(work: Work<T>) => Promise<T>;
  readonly progress: (at: AuditProgress) => void;
}

/** The reads that a page waits for, by the names under which a thread is asked for them. */
export function pageReads({ read }: ThreadParts) {
  const { events, deliveries, messages, runs, history, backlog, quarantine } = createReading({ read });
  return {
    events: events.list,
    deliveries: deliveries.list,
    groups: deliveries.groups,
    deliveryCounts: deliveries.counts,
    messages: messages.list,
    runs: runs.list,
    lastHour: history.lastHour,
    series: (query: SeriesQuery) => read(readSeries(query)),
    quality: (query: QualityQuery) => read(readQuality(query)),
    backlog,
    quarantine,
  };
}
export type PageReads = ReturnType<typeof pageReads>;

/** The reads of all rows, which take seconds or minutes. */
export function wholeReads({ db, read, progress }: ThreadParts) {
  return {
    stats: () => read(stats()),
    audit: (order: AuditOrder) => inSnapshot(db, () => read(audit(order, progress))),
    copy: (to: string) => copyStore(db, to, progress),
    damage: () => findDamage(db),
  };
}
export type WholeReads = ReturnType<typeof wholeReads>;

/** Table by table, because a thread that is ended finishes its statement first. */
async function findDamage(db: Db): Promise<string | null> {
  for (const { name } of tables) {
    const damage = damageOf(db, name);
    if (damage !== null) return damage;
    await wait(0);
  }
  return null;
}
