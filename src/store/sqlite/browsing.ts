import { minuteMs } from "../../model/history.ts";
import { lastHourFrom } from "../../model/last-hour.ts";
import type { StoreReading } from "../reading.ts";
import { settledState, whereQuarantined } from "../schema/tables.ts";
import type { Db } from "./file.ts";
import type { FileInspecting } from "./inspecting.ts";

/** Fewer rows are read within milliseconds, and a thread takes longer to start. */
const fewRows = 20_000;

/** The same reads. A read that may go through many rows runs in a thread and does not delay receiving. */
export function createBrowsing(db: Db, read: StoreReading, page: FileInspecting["page"], few = fewRows): StoreReading {
  const { events, deliveries, messages, runs, history } = read;
  const hasMany = createHasMany(db, few);
  return {
    ...read,
    isAside: hasMany.lists,
    events: { ...events, list: (filter) => (hasMany.lists() ? page("events", filter) : events.list(filter)) },
    deliveries: {
      ...deliveries,
      list: (filter) => (hasMany.lists() ? page("deliveries", filter) : deliveries.list(filter)),
      groups: (filter) => (hasMany.lists() ? page("groups", filter) : deliveries.groups(filter)),
      counts: (seqs) => (hasMany.lists() ? page("deliveryCounts", seqs) : deliveries.counts(seqs)),
    },
    messages: { ...messages, list: (filter) => (hasMany.lists() ? page("messages", filter) : messages.list(filter)) },
    runs: { ...runs, list: (filter) => (hasMany.lists() ? page("runs", filter) : runs.list(filter)) },
    history: { lastHour: (now) => (hasMany.minutes(lastHourFrom(now)) ? page("lastHour", now) : history.lastHour(now)) },
    backlog: () => (hasMany.undelivered() ? page("backlog") : read.backlog()),
    quarantine: () => (hasMany.quarantined() ? page("quarantine") : read.quarantine()),
  };
}

/** Whether there are at least `few` rows. It steps over that many at most. */
function createHasMany(db: Db, few: number) {
  const has = (rows: string) => {
    const find = db.prepare<number[], 1>(`SELECT 1 FROM ${rows} LIMIT 1 OFFSET +?`);
    return (...values: number[]): boolean => find.get(...values, few - 1) !== undefined;
  };
  const spans = (table: string) => {
    const find = db.prepare<[], number | null>(`SELECT (SELECT max(seq) FROM ${table}) - (SELECT min(seq) FROM ${table})`).pluck();
    return (): boolean => (find.get() ?? 0) >= few;
  };
  const lists = [spans("events"), spans("subjects"), has("deliveries"), has("queue")];
  const undelivered = [has("queue"), has(`deliveries INDEXED BY deliveries_dead WHERE state = ${settledState.dead}`)];
  const minutes = has("counters WHERE at >= +?");
  return {
    lists: (): boolean => lists.some((each) => each()),
    undelivered: (): boolean => undelivered.some((each) => each()),
    quarantined: has(`events WHERE ${whereQuarantined}`),
    minutes: (from: number): boolean => minutes(Math.floor(from / minuteMs)),
  };
}
