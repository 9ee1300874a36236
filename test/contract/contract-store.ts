import type { AuditFilter } from "../../src/model/audit.ts";
import type { Settlement } from "../../src/model/delivery.ts";
import type { MaybePromise } from "../../src/model/maybe-promise.ts";
import type { QualityQuery } from "../../src/model/queries.ts";
import type { SeriesQuery } from "../../src/model/series.ts";
import { audit } from "../../src/store/audit/audit.ts";
import type { createStore } from "../../src/store/create-store.ts";
import type {
  DueDelivery,
  ReplayCursor,
  ReplayFilter,
  ReplayFound,
  Rules,
} from "../../src/store/port.ts";
import { readQuality, readSeries } from "../../src/store/read/history.ts";
import { queue, subjects } from "../../src/store/schema/tables.ts";
import { first, type Work } from "../../src/store/sql/ops.ts";
import { as, select, sql } from "../../src/store/sql/sql.ts";
import { keyOf, keyOfRun } from "../../src/store/work/subject-rows.ts";
import { startOfWalk } from "./store-events.ts";

interface ContractParts {
  readonly store: ReturnType<typeof createStore>;
  read<T>(work: Work<T>): MaybePromise<T>;
  /** In one transaction that reads one snapshot. */
  snapshot<T>(work: Work<T>): MaybePromise<T>;
}

export type ContractStore = ReturnType<typeof contractOf>;

/** A store of its own, empty at first. */
export interface ContractSubject {
  readonly store: ContractStore;
  /**
   * Ends the store and opens it again on what it has kept, with other rules when they are given.
   */
  reopen(rules?: Rules): Promise<ContractStore>;
  end(): Promise<void>;
}

export type OpenSubject = (rules: Rules) => Promise<ContractSubject>;

/** The port of the one store, asked by route and seq. */
export function contractOf({ store, read, snapshot }: ContractParts) {
  /** All steps of a walk. */
  async function walk(
    at: number,
    look: (cursor: ReplayCursor) => MaybePromise<ReplayFound>,
    act: (
      found: ReplayFound["found"],
    ) => Promise<{ readonly replayed: number; readonly due: readonly DueDelivery[] }>,
  ) {
    const all = { replayed: 0, due: [] as DueDelivery[] };
    for (let cursor: ReplayCursor | null = startOfWalk(at); cursor !== null; ) {
      const step: ReplayFound = await look(cursor);
      const { replayed, due } = await act(step.found);
      all.replayed += replayed;
      all.due.push(...due);
      cursor = step.cursor;
    }
    return all;
  }
  return {
    ...store,
    due: async (route: string, now: number, limit: number) =>
      (await store.due({ route, from: 0, now, limit })).places.map(({ event }) => event),
    nextDueAt: async (route: string, now: number) =>
      (await store.due({ route, from: 0, now, limit: 10_000 })).nextAt,
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
    replay: (filter: ReplayFilter, at: number) =>
      walk(
        at,
        (cursor) => store.findReplay(filter, cursor, at, 3),
        (found) => store.replay(found, filter.states, at),
      ),
    /** Filtered events that routes take now get their deliveries. */
    replayFiltered(at: number) {
      const filter = { disposition: "filtered" } as const;
      return walk(
        at,
        (cursor) => store.findBackfill(filter, cursor, 3),
        (found) => store.backfill([...new Set(found.map(({ event }) => event))], filter, at),
      );
    },
    stopReason: store.read.stopReason,
    secretUses: store.read.secretUses,
    seqsOf: store.read.seqsOf,
    async event(seq: number) {
      const found = await store.read.getEvent(seq);
      return (
        found && {
          ...found,
          verdicts: found.routes.map(
            ({ route, verdict, reason }) => [route, verdict, ...(reason ? [reason] : [])] as const,
          ),
        }
      );
    },
    async delivery(event: number, route: string) {
      const [found] = await store.read.listDeliveries({ event, route, limit: 1 });
      return found === undefined
        ? null
        : { ...found, attemptHistory: await store.read.attemptsOf(found) };
    },
    audit: (now: number, filter: AuditFilter = {}) =>
      snapshot(audit({ now, isRunning: false, ...filter }, () => {})),
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
  };
}

const q = as(queue, "q");
const s = as(subjects, "s");
const placed = select({
  lane: q.lane,
  event: q.event,
  account: q.account,
  spent: q.spent,
  replays: q.replays,
  cause: q.cause,
});
const subject = select({
  status: s.status,
  error: s.error,
  registeredAt: s.registered_at,
  reference: s.reference,
  times: s.times,
});

const anyOf = (route: string, event: number) =>
  first(placed`FROM queue q WHERE q.route = ${route} AND q.event = ${event}`);

const subjectOf = (account: string, key: Buffer) =>
  first(subject`FROM subjects s WHERE ${sql`s.key = ${key} AND s.account = ${account}`}`);
