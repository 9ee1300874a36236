import type { RouteVerdict } from "../../event/plan.ts";
import { type Facts, judgeAgain } from "../facts.ts";
import type { DueDelivery } from "../planned.ts";
import type { Rules } from "../rules.ts";
import { againBy, concludeVerdicts } from "../verdicts.ts";
import { concludeEvent, deliverAll } from "./conclude-event.ts";
import { type EventRow, readEventRow } from "./event-row.ts";
import type { Keys, SubjectName } from "./keys.ts";
import type { RedisLink } from "./link.ts";
import type { StoredEvents } from "./stored-events.ts";
import type { Transact, Transaction } from "./transact.ts";

interface Parts {
  readonly keys: Keys;
  readonly link: RedisLink;
  readonly rules: Rules;
  readonly transact: Transact;
  readonly events: Pick<StoredEvents, "verdicts">;
}

/** Events ended in one step: Redis does nothing else for about a millisecond. */
const mostAtOnce = 100;

/**
 * Parked events: released by registration, in order, or ended when their time is up. Both are held to the rows of the
 * events, so of two processes one does it; and one more event is parked only with a new version of its subject.
 */
export function createParking({ keys, link, rules, transact, events }: Parts) {
  async function readEvent(tx: Transaction, seq: number): Promise<EventRow | null> {
    const json = await tx.read(keys.event(seq));
    return json === null ? null : readEventRow(json);
  }

  async function concluded(rows: readonly { readonly seq: number; readonly row: EventRow }[]) {
    const kept = await events.verdicts(rows.map(({ row }) => row));
    return rows.map((one, index) => ({ ...one, kept: kept[index] ?? [] }));
  }

  async function expireSome(now: number, limit: number): Promise<number> {
    const due = await link.run((redis) => redis.zrangebyscore(`${keys.base}parked`, "-inf", now, "LIMIT", 0, limit));
    if (due.length === 0) return 0;
    return transact(async (tx) => {
      const found = await Promise.all(due.map(async (seq) => ({ seq: Number(seq), row: await readEvent(tx, Number(seq)) })));
      const rows = found.flatMap(({ seq, row }) => (row === null || row.parkedUntil === null ? [] : [{ seq, row }]));
      // A campaign's differ in little: each distinct plan is concluded once.
      const plans = new Map<string | null, readonly RouteVerdict[]>();
      for (const { seq, row, kept } of await concluded(rows)) {
        const verdicts = plans.get(row.plan) ?? concludeVerdicts(kept, untracked).verdicts;
        plans.set(row.plan, verdicts);
        concludeEvent(tx, keys, seq, row, { disposition: row.disposition === "forwarded" ? "forwarded" : "ignored", verdicts });
      }
      return rows.length;
    });
  }

  return {
    /**
     * Registration came in time: the routes that held an event back judge it anew, now that it is tracked. `tx` has read
     * the subject, and writes it. What is returned is filled when the step is committed.
     */
    async release(tx: Transaction, name: SubjectName, facts: Facts, at: number): Promise<DueDelivery[]> {
      const due: DueDelivery[] = [];
      const seqs = (await link.run((redis) => redis.zrange(keys.of(`pk:${name}`), "0", "-1"))).map(Number);
      const found = await Promise.all(
        seqs.map(async (seq) => ({ seq, row: await readEvent(tx, seq), body: await link.run((redis) => redis.getBuffer(keys.body(seq))) })),
      );
      const bodies = new Map(found.map(({ seq, body }) => [seq, body]));
      const rows = found.flatMap(({ seq, row }) => (row === null || row.parkedUntil === null ? [] : [{ seq, row }]));
      for (const { seq, row, kept } of await concluded(rows)) {
        const body = bodies.get(seq) ?? null;
        const fresh = body === null ? null : judgeAgain(rules, { ...row, body }, facts);
        if (fresh === null) continue;
        const { verdicts, released } = concludeVerdicts(kept, againBy(fresh));
        const isForwarded = row.disposition === "forwarded" || released.some(({ verdict }) => verdict === "deliver");
        concludeEvent(tx, keys, seq, row, { disposition: isForwarded ? "forwarded" : "filtered", verdicts });
        deliverAll(tx, rules, { seq, subject: name, verdicts: released, at }, due);
      }
      return due;
    },
    /** Ends events whose time is up, at most `limit`, those that wait longest first; gives how many it ended. */
    async expire(now: number, limit: number): Promise<number> {
      let ended = 0;
      for (let left = limit; left > 0; left -= mostAtOnce) {
        const most = Math.min(left, mostAtOnce);
        const some = await expireSome(now, most);
        ended += some;
        if (some < most) break;
      }
      return ended;
    },
  };
}

export type Parking = ReturnType<typeof createParking>;

const untracked = (route: string): RouteVerdict => ({ route, verdict: "skip", reason: "untracked" });
