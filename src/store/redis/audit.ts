import type { AuditReport } from "../../model/audit.ts";
import { createGaps, createTally, type Tally } from "../audit.ts";
import { checkUsage, clockSlackMs, lateMs } from "../audit-rules.ts";
import { rowsAtOnce } from "../migrate/source.ts";
import type { AuditOrder, AuditProgress } from "../reading.ts";
import type { StoredSecretUse } from "../views.ts";
import { createEventAudit } from "./audit-events.ts";
import { createSlices, type WaitingParts, waitingAfter, waitingAmong } from "./audit-slices.ts";
import { type RedisLink, runPipeline } from "./client.ts";
import type { StoredEvents } from "./event-rows.ts";
import type { Keys } from "./keys.ts";
import type { LiveSeqs } from "./live-seqs.ts";
import { type RetentionRow, readRetentionRow, retentionRowName, rowJson } from "./rows.ts";

export interface AuditParts {
  readonly keys: Keys;
  readonly link: RedisLink;
  readonly live: LiveSeqs;
  readonly events: StoredEvents;
  readonly secretUses: () => Promise<readonly StoredSecretUse[]>;
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
  const judge = createEventAudit({ tally, sweptBefore: () => retention.sweptDeliveries, parkedSince });
  const gaps = createGaps(tally, first === 0, () => retention.sweptEvents);
  const read = createSlices({ keys, link, events });
  const proved = new Map<string, number>();
  const rows = { events: 0, deliveries: 0, attempts: 0 };

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
      rows.deliveries += one.deliveries.length;
      rows.attempts += one.deliveries.reduce((sum, { tries }) => sum + tries, 0);
    }
    progress({ checked: (seqs.at(-1) ?? first) - first, of: last - first });
  }
  if (isWhole) {
    checkUsage(tally, new Map(told.map(({ source, secret, events }) => [`${source}:${secret}`, events])), proved, everAccepted);
    await findStrays(parts, tally, newest);
    await findWaitingStrays(parts, tally, newest);
  }
  return { ...tally.result(), at: order.now, tookMs: Math.round(performance.now() - startedAt), rows, gone: gaps.result() };
}

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
      if ((await link.run((redis) => redis.zscore(keys.of(`${list}:${route}`), member))) === null) continue;
      tally.offence("delivery without event", seq, route, "there is no such event");
    }
  }

  for (const route of await link.run((redis) => redis.smembers(keys.of("routes")))) {
    for (const list of deliveryLists) {
      let cursor = "0";
      do {
        const [next, found] = await link.run((redis) => redis.zscan(keys.of(`${list}:${route}`), cursor, "COUNT", membersAtOnce));
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
