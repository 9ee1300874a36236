import type { Disposition, KeptVerdict } from "../../model/plan.ts";
import { expire, release } from "../../track/parking.ts";
import { replan } from "../../track/planning.ts";
import type { DueDelivery } from "../rules.ts";

import { type EventRow, type PlanText, planText, readBody, readEventRow, writeEventRow } from "./event-rows.ts";
import { countsOfEvent } from "./history.ts";
import { readSubjectName, type SubjectName } from "./keys.ts";
import { concludeEvent, deliverAll } from "./plans.ts";
import { rowJson, rowVersion, type StoredSubject } from "./rows.ts";
import { factsOf, type Subjects, type SubjectsOf } from "./subjects.ts";
import type { Transaction, WriteParts } from "./transact.ts";

interface Parts extends WriteParts {
  readonly subjectsOf: SubjectsOf;
  readonly version: () => string;
}

/** An expired event by its plan. */
interface Ended {
  readonly disposition: Disposition;
  readonly text: PlanText;
}

/** Events expired per step; each step blocks Redis for about a millisecond. */
const mostAtOnce = 100;
/** Events released per step, over all its registrations: each is some five commands and a plan. Further steps release the rest. */
const releasedAtOnce = 50;
/** Subjects whose release one step continues. */
const subjectsAtOnce = 20;

/**
 * Parked events: released in order by registration, or expired. Both check the rows of the events, so of two processes one
 * does it. Parking another event changes the version of its subject.
 *
 * A subject whose release is unfinished has `releasedTo` in its row and is listed in `releasing`. Until then its new events
 * are parked too, so that none overtakes (plans.ts), and its parked events do not expire.
 */
export function createParking({ keys, link, rules, transact, subjectsOf, version, events }: Parts) {
  const releasing = `${keys.base}releasing`;
  /** Events that a transaction may still release. A retry starts with a new budget. */
  const budgets = new WeakMap<Transaction, number>();

  async function readEvent(tx: Transaction, seq: number): Promise<EventRow | null> {
    const json = await tx.read(keys.event(seq));
    return json === null ? null : readEventRow(json);
  }

  async function withVerdicts<One extends { readonly row: EventRow }>(rows: readonly One[]) {
    const kept = await events.verdicts(rows.map(({ row }) => row));
    return rows.map((one, index) => ({ ...one, kept: kept[index] ?? [] }));
  }

  /** The row of an expired event: parked routes get nothing. A campaign's events have few different plans. */
  function ended(row: EventRow, kept: readonly KeptVerdict[], plans: Map<string | null, Ended>): EventRow {
    let to = plans.get(row.plan);
    if (to === undefined) {
      const concluded = expire(kept);
      to = { disposition: concluded.disposition, text: planText(concluded) };
      plans.set(row.plan, to);
    }
    return { ...row, disposition: to.disposition, plan: to.text.digest, parkedUntil: null };
  }

  /** Expires events with one operation, because most messages of a campaign are never registered. */
  async function expireSome(now: number, limit: number): Promise<number> {
    const { base } = keys;
    const seqs = await link.run((redis) => redis.zrangebyscore(`${base}parked`, "-inf", now, "LIMIT", 0, limit));
    if (seqs.length === 0) return 0;
    const texts = await link.run((redis) => redis.mget(seqs.map((seq) => keys.event(Number(seq)))));
    const rows = texts.flatMap((text, index) => {
      if (text === null) return [];
      const row = readEventRow(rowJson(text));
      // Released since the list was read.
      return row.parkedUntil === null ? [] : [{ seq: String(Number(seqs[index])), version: rowVersion(text), row }];
    });
    const plans = new Map<string | null, Ended>();
    const list = (await withVerdicts(rows)).flatMap(({ seq, version: before, row, kept }) => {
      const after = ended(row, kept, plans);
      const isIgnored = after.disposition === "ignored" ? "1" : "";
      const [tail, was] = countsOfEvent(row, -1);
      const place = [row.subject ?? "", String(row.receivedAt), isIgnored, tail, was, countsOfEvent(after, 1)[1]];
      return [seq, before, version() + writeEventRow(after), ...place];
    });
    let sum = 0;
    await transact((tx) => {
      for (const { text } of plans.values()) tx.call("HSETNX", `${base}plans`, text.digest, text.verdicts);
      tx.operate(["expire", ...list], (result) => {
        sum = Number(result);
      });
    });
    return sum;
  }

  /**
   * Writes a subject, and releases its parked events after `after.releasedTo` within the budget of the transaction: the
   * routes that held them back decide again. `due` is filled when the step is committed.
   */
  async function releaseFrom(tx: Transaction, subjects: Subjects, name: SubjectName, after: StoredSubject, at: number, due: DueDelivery[]) {
    const budget = budgets.get(tx) ?? releasedAtOnce;
    const from = `(${after.releasedTo ?? 0}`;
    const all = (await link.run((redis) => redis.zrangebyscore(keys.of(`pk:${name}`), from, "+inf", "LIMIT", 0, budget + 1))).map(Number);
    const seqs = all.slice(0, budget);
    budgets.set(tx, budget - seqs.length);
    const releasedTo = all.length > budget ? (seqs.at(-1) ?? after.releasedTo ?? 0) : null;
    subjects.put(name, { ...after, releasedTo });
    if (releasedTo === null) {
      if (after.releasedTo !== null) tx.call("ZREM", releasing, name);
    } else if (after.releasedTo === null) tx.call("ZADD", releasing, String(at), name);

    const found = await Promise.all(
      seqs.map(async (seq) => ({ seq, row: await readEvent(tx, seq), body: await readBody(link, keys, seq) })),
    );
    const bodies = new Map(found.map(({ seq, body }) => [seq, body]));
    const rows = found.flatMap(({ seq, row }) => (row === null || row.parkedUntil === null ? [] : [{ seq, row }]));
    const facts = factsOf(readSubjectName(name).type, after);
    for (const { seq, row, kept } of await withVerdicts(rows)) {
      const body = bodies.get(seq) ?? null;
      const fresh = body === null ? null : replan(rules, { ...row, body }, facts);
      if (fresh === null) continue;
      const concluded = release(kept, fresh);
      concludeEvent(tx, keys, seq, row, concluded);
      deliverAll(tx, rules, { seq, subject: name, verdicts: concluded.released, at }, due);
    }
    return seqs.length;
  }

  /** Continues the release of some subjects, the longest waiting first; `found`: their number. */
  async function releaseNext(at: number): Promise<{ found: number; released: number; due: DueDelivery[] }> {
    const names = await link.run((redis) => redis.zrange(releasing, "0", String(subjectsAtOnce - 1)));
    if (names.length === 0) return { found: 0, released: 0, due: [] };
    return transact(async (tx) => {
      const subjects = subjectsOf(tx);
      const due: DueDelivery[] = [];
      let released = 0;
      const rows = await Promise.all(names.map((name) => subjects.find(name)));
      for (const [index, name] of names.entries()) {
        const row = rows[index] ?? null;
        // Deleted, or finished by another process.
        if (row === null || row.releasedTo === null) tx.call("ZREM", releasing, name);
        else if (released < releasedAtOnce) released += await releaseFrom(tx, subjects, name, row, at, due);
      }
      return { found: names.length, released, due };
    });
  }

  return {
    /**
     * For a registration: writes `after` and releases the parked events; `releaseSome` does the rest of a large backlog.
     * `tx` must have read the subject. The result is filled when the step is committed.
     */
    async release(tx: Transaction, subjects: Subjects, name: SubjectName, after: StoredSubject, at: number): Promise<DueDelivery[]> {
      const due: DueDelivery[] = [];
      await releaseFrom(tx, subjects, name, after, at, due);
      return due;
    },
    /** Continues unfinished releases, about `limit` events; returns how many it released. */
    async releaseSome(at: number, limit: number): Promise<{ released: number; due: readonly DueDelivery[] }> {
      const all: DueDelivery[] = [];
      let sum = 0;
      while (sum < limit) {
        const { found, released, due } = await releaseNext(at);
        sum += released;
        all.push(...due);
        if (found === 0) break;
      }
      return { released: sum, due: all };
    },
    /** Expires at most `limit` events, the longest waiting first; returns how many it expired. */
    async expire(now: number, limit: number): Promise<number> {
      let sum = 0;
      for (let left = limit; left > 0; left -= mostAtOnce) {
        const most = Math.min(left, mostAtOnce);
        const some = await expireSome(now, most);
        sum += some;
        // No more are due, or another process expires them.
        if (some < most) break;
      }
      return sum;
    },
  };
}

export type Parking = ReturnType<typeof createParking>;
