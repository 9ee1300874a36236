import type { AuditReport } from "../../model/audit.ts";
import { auditedSeries, hourMs, statusLabel } from "../../model/history.ts";
import { checkUsage, clockSlackMs, lateMs } from "../audit/rules.ts";
import { createGaps, createTally, type Tally } from "../audit/tally.ts";
import { compareHistory, createHistoryTally, type HistoryCounts } from "../audit-history.ts";
import type { AuditOrder, AuditProgress } from "../reading.ts";
import type { StoredSecretUse } from "../views.ts";
import { createEventAudit } from "./audit-events.ts";
import { createSlices, type Looked, type WaitingParts, waitingAfter, waitingAmong } from "./audit-slices.ts";
import { type RedisLink, runPipeline } from "./client.ts";
import type { StoredEvents } from "./event-rows.ts";
import { fieldOf } from "./history.ts";
import { type Keys, readSubjectName } from "./keys.ts";
import type { LiveSeqs } from "./live-seqs.ts";
import type { HistoryCountsOf } from "./read-history.ts";
import { type RetentionRow, readRetentionRow, retentionRowName, rowJson } from "./rows.ts";

const rowsAtOnce = 120;

export interface AuditParts {
  readonly keys: Keys;
  readonly link: RedisLink;
  readonly live: LiveSeqs;
  readonly events: StoredEvents;
  readonly secretUses: () => Promise<readonly StoredSecretUse[]>;
  readonly historyCounts: HistoryCountsOf;
  /** The seq after which the events received from a time (unix ms) on are. */
  readonly seqBefore: (time: number) => Promise<number>;
}

/**
 * Checks every row by `auditRules`, a few hundred events at a time, so that other work gets through in between. Events
 * received after the start are not checked. Rejects once `signal` is aborted.
 */
export async function runAudit(
  parts: AuditParts,
  order: AuditOrder,
  progress: (at: AuditProgress) => void,
  signal: AbortSignal,
): Promise<AuditReport> {
  const { keys, link, live, events } = parts;
  const startedAt = performance.now();
  const { from = Number.NEGATIVE_INFINITY, to = Number.POSITIVE_INFINITY, source } = order;
  const isWhole = order.from === undefined && order.to === undefined && source === undefined;
  const newest = await live.last();
  const first = order.from === undefined ? 0 : await parts.seqBefore(order.from - clockSlackMs);
  const last = order.to === undefined ? newest : await parts.seqBefore(order.to + clockSlackMs);
  // Read between `newest` and `everAccepted`, because events arrive meanwhile: the sums cover every event up to `newest`,
  // and at most `everAccepted`.
  const told = await parts.secretUses();
  const everAccepted = await live.last();
  const lastAt = (await events.rows(newest === 0 ? [] : [newest]))[0]?.receivedAt ?? 0;
  const parkedSince = (order.isRunning ? order.now : lastAt) - lateMs;

  let retention: RetentionRow = readRetentionRow(null);
  const ids = new Map<number, string | null>();
  const tally = createTally<string>({
    nameOf: (name) => name,
    eventIdOf: (seq) => ids.get(seq) ?? null,
    mostOffenders: order.mostOffenders,
  });
  const judge = createEventAudit({ tally, deletedBefore: () => retention.sweptDeliveries, parkedSince });
  const gaps = createGaps(tally, first === 0, () => retention.sweptEvents);
  const read = createSlices({ keys, link, events });
  const proved = new Map<string, number>();
  const rows = { events: 0, deliveries: 0, attempts: 0 };
  const history = createHistoryTally();
  const historyBefore = isWhole ? await historyCounts() : [];

  for await (const seqs of live.forth(first, last + 1, rowsAtOnce)) {
    signal.throwIfAborted();
    const looked = await read(seqs);
    const row = await link.run((redis) => redis.get(keys.of(retentionRowName)));
    retention = readRetentionRow(row === null ? null : rowJson(row));
    ids.clear();
    for (const { row: event } of looked) ids.set(event.seq, event.id);
    for (const one of looked) {
      const { seq, receivedAt, secret } = one.row;
      const isCounted = receivedAt >= from && receivedAt < to && (source === undefined || one.row.source === source);
      gaps.next(seq, receivedAt, isCounted && source === undefined);
      if (!isCounted) continue;
      judge(one);
      if (secret !== null) proved.set(`${one.row.source}:${secret}`, (proved.get(`${one.row.source}:${secret}`) ?? 0) + 1);
      rows.events += 1;
      if (isWhole) countRow(one);
      rows.deliveries += one.deliveries.length;
      rows.attempts += one.deliveries.reduce((sum, { storedAttempts }) => sum + storedAttempts, 0);
    }
    progress({ checked: (seqs.at(-1) ?? first) - first, of: last - first });
  }
  if (isWhole) {
    await checkHistory(await historyCounts());
    checkUsage(tally, new Map(told.map(({ source, secret, events }) => [`${source}:${secret}`, events])), proved, everAccepted);
    await findStrays(parts, tally, newest);
    await findWaitingStrays(parts, tally, newest);
  }
  return { ...tally.result(), at: order.now, tookMs: Math.round(performance.now() - startedAt), rows, gone: gaps.result() };

  /** Without an end: a clock that was ahead stored events in minutes that are still to come. */
  function historyCounts(): Promise<HistoryCounts[][]> {
    return Promise.all(auditedSeries.map((series) => Array.fromAsync(parts.historyCounts(series, 0, Number.MAX_SAFE_INTEGER))));
  }

  function countRow({ row, deliveries }: Looked): void {
    history.add("events", row.receivedAt, fieldOf(row.source, row.disposition));
    if (row.moved && row.status !== null && row.subject !== null) {
      const label = statusLabel(readSubjectName(row.subject).type, row.status);
      history.add("transitions", row.receivedAt, fieldOf(row.source, label));
    }
    for (const { route, made } of deliveries) for (const { at, outcome } of made) history.add("attempts", at, fieldOf(route, outcome));
  }

  /** A running relay still writes the rows of the last minutes. */
  async function checkHistory(historyAfter: readonly HistoryCounts[][]): Promise<void> {
    const forgotten = Number((await link.run((redis) => redis.get(keys.of("forgotten")))) ?? 0) * hourMs;
    const { sweptEvents, sweptDeliveries } = retention;
    for (const [n, series] of auditedSeries.entries()) {
      compareHistory(tally, {
        series,
        rows: history.of(series),
        before: historyBefore[n] ?? [],
        after: historyAfter[n] ?? [],
        from: Math.max(forgotten, sweptEvents ?? 0, series === "attempts" ? (sweptDeliveries ?? 0) : 0),
        to: order.isRunning ? order.now - settledMs : Number.POSITIVE_INFINITY,
      });
    }
  }
}

/** Rows of a minute are stored this long after it, at the latest: an attempt is counted in the minute of its start. */
const settledMs = 5 * 60_000;

const deliveryLists = ["due", "leased", "held", "dead", "px"] as const;
/** Approximate members per ZSCAN. */
const membersAtOnce = 500;

/** Finds deliveries in lists whose event is missing, up to seq `last`. */
async function findStrays({ keys, link }: { keys: Keys; link: RedisLink }, tally: Tally<string>, last: number): Promise<void> {
  async function strays(route: string, list: string, members: readonly string[]): Promise<void> {
    const old = members.filter((member) => Number(member) <= last);
    if (old.length === 0) return;
    const found = await runPipeline(link, (commands) => {
      for (const member of old) commands.exists(keys.event(Number(member)));
    });
    for (const [index, member] of old.entries()) {
      const seq = Number(member);
      if (found[index] === 1) continue;
      // Retention may have deleted both meanwhile.
      if ((await link.run((redis) => redis.zscore(keys.of(list), member))) === null) continue;
      tally.offence("delivery without event", seq, route, "there is no such event");
    }
  }

  for (const route of await link.run((redis) => redis.smembers(keys.of("routes")))) {
    const causes = await link.run((redis) => redis.smembers(keys.of(`causes:${route}`)));
    for (const list of [...deliveryLists.map((name) => `${name}:${route}`), ...causes.map((name) => `cause:${route}:${name}`)]) {
      let cursor = "0";
      do {
        const [next, found] = await link.run((redis) => redis.zscan(keys.of(list), cursor, "COUNT", membersAtOnce));
        cursor = next;
        await strays(
          route,
          list,
          found.filter((_, index) => index % 2 === 0),
        );
      } while (cursor !== "0");
    }
  }
}

/** Finds unplanned seqs without an event, up to seq `last`. */
async function findWaitingStrays(parts: WaitingParts, tally: Tally<string>, last: number): Promise<void> {
  const { keys, link } = parts;
  for await (const some of waitingAfter(parts, 0)) {
    const old = some.filter((seq) => seq <= last);
    if (old.length === 0) return;
    const found = await runPipeline(link, (commands) => {
      for (const seq of old) commands.exists(keys.event(seq));
    });
    const missing = old.filter((_, index) => found[index] !== 1);
    // It may have been planned and deleted meanwhile.
    const waiting = await waitingAmong(parts, missing);
    for (const seq of missing)
      if (waiting.has(seq)) tally.offence("planning broken", seq, null, "waits to be planned, and there is no such event");
  }
}
