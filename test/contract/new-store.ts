import type { AuditFilter } from "../../src/model/audit.ts";
import type { Settlement } from "../../src/model/delivery.ts";
import type { QualityQuery, SeriesQuery } from "../../src/model/history.ts";
import { audit } from "../../src/store/audit/audit.ts";
import { createCommands } from "../../src/store/commands.ts";
import { createStore } from "../../src/store/create-store.ts";
import type { Database } from "../../src/store/database.ts";
import type { ReplayCursor, ReplayFilter, ReplayFound } from "../../src/store/port.ts";
import { readSeries } from "../../src/store/read/history.ts";
import { stopReason } from "../../src/store/read/notes.ts";
import { readQuality } from "../../src/store/read/quality.ts";
import { secretUses } from "../../src/store/read/stats.ts";
import type { DueDelivery, Rules } from "../../src/store/rules.ts";
import { queue, subjects } from "../../src/store/schema/tables.ts";
import { first, type Work } from "../../src/store/sql/ops.ts";
import { as, select, sql } from "../../src/store/sql/sql.ts";
import { keyOf, keyOfRun } from "../../src/store/work/subject-rows.ts";
import { type OneStore, type OpenStore, openPostgres, openSqlite } from "./one-store.ts";
import type { ContractStore, OpenSubject } from "./store-port.ts";

/** The one store behind the contract of the port, on either database. */
export const openNew =
  (open: OpenStore): OpenSubject =>
  async (rules) => {
    const opened = await open(rules);
    let store = contractOf(opened, rules);
    return {
      store,
      async reopen(other = rules) {
        await store.leave();
        await store.flush();
        store = contractOf(opened, other);
        return store;
      },
      end: async () => opened[Symbol.asyncDispose](),
    };
  };

export const onSqlite = openNew(openSqlite);
export const onPostgres = openNew(openPostgres(18));

/** The port over an opened database. */
export function storeOn(opened: OneStore, rules: Rules) {
  const commands = createCommands({ rules, writer: opened.writer, held: () => null });
  const database: Database = {
    run: async (kind, item) => (await opened.send(() => kind, [item]))[0] as never,
    read: (work) => opened.read(work),
  };
  return { ...createStore(database, { commands, rules }), commands, database };
}

function contractOf(opened: OneStore, rules: Rules): ContractStore & { leave(): Promise<void>; flush(): Promise<void> } {
  const { commands, database, ...store } = storeOn(opened, rules);
  const read = <T>(work: Work<T>): Promise<T> => opened.read(work);
  return {
    ...store,
    due: async (route: string, now: number, limit: number) =>
      (await store.due({ route, from: 0, now, limit })).places.map(({ event }) => event),
    nextDueAt: async (route: string, now: number) => (await store.due({ route, from: 0, now, limit: 10_000 })).nextAt,
    async load(route: string, event: number) {
      const place = await read(anyOf(route, event));
      const [found] = place === null ? [] : await store.load(route, [place]);
      if (found === undefined) return null;
      const { lane: _lane, cause: _cause, dueAt: _dueAt, ...delivery } = found;
      return delivery;
    },
    async settle(settlement: Settlement) {
      const delivery = await read(anyOf(settlement.route, settlement.event));
      if (delivery === null) return null;
      const outcome = await store.settle({ ...settlement, delivery });
      return outcome.result === "settled" ? (outcome.released?.event ?? null) : null;
    },
    async expireParked(now: number, limit: number) {
      return (await store.expireParked(now, limit)).concluded;
    },
    async replay(filter: ReplayFilter, at: number, afterStep?: (due: readonly DueDelivery[]) => Promise<void>) {
      const all = { replayed: 0, due: [] as DueDelivery[] };
      let cursor: ReplayCursor | null = { since: at, event: 0, route: 0 };
      while (cursor !== null) {
        const step: ReplayFound = await store.findReplay(filter, cursor, at, 3);
        const done = await store.replay(step.found, filter.states, at);
        all.replayed += done.replayed;
        all.due.push(...done.due);
        await afterStep?.(done.due);
        cursor = step.cursor;
      }
      return all;
    },
    async replayFiltered(at: number) {
      const filter = { disposition: "filtered" } as const;
      const all = { replayed: 0, due: [] as DueDelivery[] };
      let cursor: ReplayCursor | null = { since: at, event: 0, route: 0 };
      while (cursor !== null) {
        const step: ReplayFound = await store.findBackfill(filter, cursor, 3);
        const done = await store.backfill([...new Set(step.found.map(({ event }) => event))], filter, at);
        all.replayed += done.replayed;
        all.due.push(...done.due);
        cursor = step.cursor;
      }
      return all;
    },
    stopReason: (route: string) => read(stopReason(route)),
    secretUses: () => read(secretUses()),
    seqsOf: store.read.events.seqsOf,
    event: store.read.events.get,
    async delivery(event: number, route: string) {
      const [found] = await store.read.deliveries.list({ event, route, limit: 1 });
      return found === undefined ? null : { ...found, attemptHistory: await store.read.deliveries.attempts(found) };
    },
    audit: (now: number, filter: AuditFilter = {}) =>
      opened.snapshot(audit({ now, isRunning: false, mostOffenders: 100, ...filter }, () => {})),
    series: (query: SeriesQuery) => read(readSeries(query)),
    quality: (query: QualityQuery) => read(readQuality(query)),
    async message(account: string, wamid: string) {
      const row = await read(subjectOf(account, keyOf(wamid)));
      if (row === null) return null;
      const { status, error, registeredAt, reference, times } = row;
      return { status, errorCode: error, registeredAt, reference, times: JSON.parse(times) };
    },
    async run(account: string, runId: string) {
      const row = await read(subjectOf(account, keyOfRun(runId)));
      return row === null ? null : { status: row.status };
    },
  } as unknown as ContractStore & { leave(): Promise<void>; flush(): Promise<void> };
}

const q = as(queue, "q");
const s = as(subjects, "s");
const placed = select({ lane: q.lane, event: q.event, account: q.account, spent: q.spent, replays: q.replays, cause: q.cause });
const subject = select({ status: s.status, error: s.error, registeredAt: s.registered_at, reference: s.reference, times: s.times });

const anyOf = (route: string, event: number) => first(placed`FROM queue q WHERE q.route = ${route} AND q.event = ${event}`);

const subjectOf = (account: string, key: Buffer) => first(subject`FROM subjects s WHERE ${sql`s.key = ${key} AND s.account = ${account}`}`);
