import { setImmediate as nextTurn } from "node:timers/promises";
import {
  createQualitySums,
  createSeriesSums,
  type HistoryCell,
  historySeries,
  hourMs,
  minutesKeptMs,
  type QualityQuery,
  type QualityView,
  qualitySeries,
  type SeriesName,
  type SeriesQuery,
  type SeriesView,
  sampleOf,
  seriesNames,
} from "../../model/history.ts";
import { createLastHourSums, type LastHour, lastHourFrom, lastHourSeries } from "../../model/last-hour.ts";
import { clockSlackMs } from "../audit/rules.ts";
import type { HistoryCounts } from "../audit-history.ts";
import type { RedisLink } from "./client.ts";
import { rowsAtOnce, type StoredEvent } from "./event-rows.ts";
import { readField } from "./history.ts";
import type { Keys } from "./keys.ts";
import type { StoredParts } from "./live-seqs.ts";
import { readSubjectRow, rowJson } from "./rows.ts";
import { readScript } from "./script.ts";

const historyScript = readScript("history");

/** Fields per run of the script: about a millisecond of Redis. */
const mostFields = 2_000;

type Answer = [next: number, ...found: [kind: "h" | "m", at: number, fields: string[]][]];

/** Reads the counts of a series that begin in `from` to `to` (unix ms, exclusive); an hour counts if a part of it does. */
export function createHistoryCounts({ base }: Keys, link: RedisLink) {
  return async function* counts(series: SeriesName, from: number, to: number): AsyncGenerator<HistoryCounts> {
    const last = String(Math.ceil(to / hourMs) - 1);
    for (let hour = Math.floor(from / hourMs); hour >= 0; ) {
      const list = [base, series, String(hour), last, String(mostFields)];
      const [next, ...found] = (await link.run((redis) => historyScript.run(redis, `${base}seq`, list))) as Answer;
      for (const [kind, place, flat] of found) {
        const step = kind === "h" ? 3_600 : 60;
        const at = place * step * 1_000;
        if (at + (kind === "h" ? hourMs - 1 : 0) < from || at >= to) continue;
        const fields = new Map<string, number>();
        for (let n = 0; n < flat.length; n += 2) fields.set(flat[n] as string, Number(flat[n + 1]));
        yield { at, step, fields };
      }
      hour = next;
    }
  };
}

export type HistoryCountsOf = ReturnType<typeof createHistoryCounts>;

interface ReadParts extends StoredParts {
  /** The seq after which the events received from a time (unix ms) on are. */
  readonly seqBefore: (time: number) => Promise<number>;
}

export function createReadHistory({ keys, link, live, events, seqBefore }: ReadParts) {
  const countsOf = createHistoryCounts(keys, link);

  /** Takes the cells of one minute or hour at a time, so that other work gets through in between. */
  async function eachCell(name: SeriesName, from: number, to: number, take: (cell: HistoryCell, ms: number) => void): Promise<void> {
    for await (const { at, step, fields } of countsOf(name, from, to)) {
      for (const [field, n] of fields) take({ ...readField(name, field), at, n }, step * 1_000);
      await nextTurn();
    }
  }

  async function* seqsIn(stretches: ReturnType<typeof sampleOf>["stretches"]): AsyncGenerator<readonly number[]> {
    for (const { after, last } of stretches) yield* live.forth(after, last + 1, rowsAtOnce);
  }

  /** Events that moved a message and match, with its row. */
  async function movedAmong(seqs: readonly number[], { from, to, route, reference }: QualityQuery) {
    const isMoved = ({ moved, subject, receivedAt }: StoredEvent) =>
      moved && subject?.startsWith("m:") === true && receivedAt >= from && receivedAt < to;
    const rows = (await events.rows(seqs)).filter(isMoved);
    if (rows.length === 0) return [];
    const verdicts = route === undefined ? null : await events.verdicts(rows);
    const subjects = await link.run((redis) => redis.mget(rows.map(({ subject }) => keys.of(subject ?? ""))));
    return rows.flatMap((row, index) => {
      const text = subjects[index] ?? null;
      if (text === null) return [];
      if (verdicts !== null && verdicts[index]?.some(([name, verdict]) => name === route && verdict === "deliver") !== true) return [];
      const message = readSubjectRow(rowJson(text));
      return reference === undefined || message.reference?.startsWith(reference) === true ? [{ row, message }] : [];
    });
  }

  return {
    /** By hour when the minutes have become hours. */
    async series(query: SeriesQuery): Promise<SeriesView> {
      const sums = createSeriesSums(query);
      await eachCell(query.name, query.from, query.to, sums.add);
      return sums.view();
    },
    async lastHour(now: number): Promise<LastHour> {
      const sums = createLastHourSums(now);
      const from = lastHourFrom(now);
      for (const name of lastHourSeries) await eachCell(name, from, from + hourMs, (cell) => sums.add(name, cell));
      return sums.result();
    },
    /** Without route and reference from the history, else from the events, a few hundred at a time. */
    async quality(query: QualityQuery, signal: AbortSignal): Promise<QualityView> {
      const { from, to, route, reference } = query;
      const sums = createQualitySums(from);
      if (route === undefined && reference === undefined) {
        for (const series of qualitySeries) await eachCell(series, from, to, (cell, ms) => sums.count(series, cell, ms));
        return sums.result();
      }
      const [after, last] = [await seqBefore(from - clockSlackMs), await seqBefore(to + clockSlackMs)];
      // None of the seqs before the oldest event exists.
      const { oldest } = (await live.bounds()) ?? { oldest: last + 1 };
      const { share, stretches } = sampleOf({ after: Math.min(last, Math.max(after, oldest - 1)), last }, query.most);
      for await (const seqs of seqsIn(stretches)) {
        signal.throwIfAborted();
        for (const { row, message } of await movedAmong(seqs, query)) {
          const { status, previousStatus, errorCode } = row;
          sums.move({ status: status ?? "", previousStatus, errorCode, times: message.times, sentAt: message.sentAt });
        }
        await nextTurn();
      }
      return sums.result(share);
    },
  };
}

const rollUpScript = readScript("roll-up");

/** Hours per step: each has sixty keys at most. */
const hoursAtOnce = 5;

/** Rolls up old minutes and deletes hours older than `keep` (ms), some at a time; `more`: there may be more. */
export function createRollUp({ base }: Keys, link: RedisLink) {
  async function rollUpOne(series: SeriesName, now: number, keep: number): Promise<number> {
    const before = [now - minutesKeptMs, now - keep].map((at) => String(Math.floor(at / hourMs)));
    const list = [base, series, historySeries[series].kind === "gauge" ? "1" : "", ...before, String(hoursAtOnce)];
    return (await link.run((redis) => rollUpScript.run(redis, `${base}seq`, list))) as number;
  }

  return async function rollUp(now: number, keep: number): Promise<{ readonly more: boolean }> {
    const handled = await Promise.all(seriesNames.map((series) => rollUpOne(series, now, keep)));
    return { more: handled.some((hours) => hours >= hoursAtOnce) };
  };
}
