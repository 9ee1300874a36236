import type { KeptVerdict } from "../rules.ts";
import { type EventRow, readEventRow } from "./event-row.ts";
import type { Keys } from "./keys.ts";
import type { RedisLink } from "./link.ts";
import { readVerdicts } from "./plan-texts.ts";
import { rowJson } from "./transact.ts";

export interface StoredEvent extends EventRow {
  readonly seq: number;
}

/** Rows in one answer of Redis: some 200 KB, and half a millisecond of its time. */
export const rowsAtOnce = 400;

/** Digests of verdicts in memory; they depend on the settings alone, so there are few. */
const mostPlans = 1_000;

/** Rows of events and the plans they have, for all that reads. */
export function createStoredEvents(keys: Keys, link: RedisLink) {
  let plans = new Map<string, readonly KeptVerdict[]>();

  /** Of at most `rowsAtOnce` seqs those that are stored, in their order. */
  async function rows(seqs: readonly number[]): Promise<StoredEvent[]> {
    if (seqs.length === 0) return [];
    const found = await link.run((redis) => redis.mget(seqs.map(keys.event)));
    return found.flatMap((text, index) => (text === null ? [] : [{ seq: seqs[index] as number, ...readEventRow(rowJson(text)) }]));
  }

  return {
    rows,
    async row(seq: number): Promise<StoredEvent | null> {
      return (await rows([seq]))[0] ?? null;
    },
    /** What the routes said of each event, in their order; nothing of those that no route has judged. */
    async verdicts(events: readonly Pick<EventRow, "plan">[]): Promise<(readonly KeptVerdict[])[]> {
      const missing = [...new Set(events.flatMap(({ plan }) => (plan === null || plans.has(plan) ? [] : [plan])))];
      const read = new Map(plans);
      if (missing.length > 0) {
        const found = await link.run((redis) => redis.hmget(`${keys.base}plans`, ...missing));
        if (plans.size + missing.length > mostPlans) plans = new Map();
        for (const [index, digest] of missing.entries()) {
          const text = found[index] ?? null;
          read.set(digest, readVerdicts(text));
          if (text !== null) plans.set(digest, readVerdicts(text));
        }
      }
      return events.map(({ plan }) => (plan === null ? [] : (read.get(plan) ?? [])));
    },
    /** The seqs of an event id, one per account that has it. */
    async seqsOf(id: string): Promise<number[]> {
      const accounts = await link.run((redis) => redis.smembers(`${keys.base}accounts`));
      if (accounts.length === 0) return [];
      const found = await link.run((redis) => redis.mget(accounts.map((account) => keys.of(`id:${account}:${id}`))));
      return found.flatMap((seq) => (seq === null ? [] : [Number(seq)])).sort((a, b) => a - b);
    },
  };
}

export type StoredEvents = ReturnType<typeof createStoredEvents>;
