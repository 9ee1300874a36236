import type { RouteVerdict } from "../../event/plan.ts";
import { type Facts, judgeAgain } from "../facts.ts";
import type { DueDelivery } from "../planned.ts";
import type { Rules } from "../rules.ts";
import { againBy, concludeVerdicts, type KeptVerdict } from "../verdicts.ts";
import { readBody } from "./bodies.ts";
import { concludeEvent, deliverAll } from "./conclude-event.ts";
import { type EventRow, readEventRow, writeEventRow } from "./event-row.ts";
import type { Keys, SubjectName } from "./keys.ts";
import type { RedisLink } from "./link.ts";
import { type PlanText, planText } from "./plan-texts.ts";
import type { StoredEvents } from "./stored-events.ts";
import { rowJson, rowVersion, type Transact, type Transaction } from "./transact.ts";

interface Parts {
  readonly keys: Keys;
  readonly link: RedisLink;
  readonly rules: Rules;
  readonly transact: Transact;
  readonly version: () => string;
  readonly events: Pick<StoredEvents, "verdicts">;
}

/** Events ended in one step: Redis does nothing else for about a millisecond. */
const mostAtOnce = 100;

/**
 * Parked events: released by registration, in order, or ended when their time is up. Both are held to the rows of the
 * events, so of two processes one does it; and one more event is parked only with a new version of its subject.
 */
export function createParking({ keys, link, rules, transact, version, events }: Parts) {
  async function readEvent(tx: Transaction, seq: number): Promise<EventRow | null> {
    const json = await tx.read(keys.event(seq));
    return json === null ? null : readEventRow(json);
  }

  async function withVerdicts<One extends { readonly row: EventRow }>(rows: readonly One[]) {
    const kept = await events.verdicts(rows.map(({ row }) => row));
    return rows.map((one, index) => ({ ...one, kept: kept[index] ?? [] }));
  }

  /** Of those that `kept` parked the routes get nothing; a campaign's events differ in little, so there are few such plans. */
  function ended(row: EventRow, kept: readonly KeptVerdict[], plans: Map<string | null, PlanText>): EventRow {
    const text = plans.get(row.plan) ?? planText({ disposition: "forwarded", verdicts: concludeVerdicts(kept, untracked).verdicts });
    plans.set(row.plan, text);
    return { ...row, disposition: row.disposition === "forwarded" ? "forwarded" : "ignored", plan: text.digest, parkedUntil: null };
  }

  /** One command of the script, however many they are: of a campaign most messages are strangers. */
  async function expireSome(now: number, limit: number): Promise<number> {
    const { base } = keys;
    const seqs = await link.run((redis) => redis.zrangebyscore(`${base}parked`, "-inf", now, "LIMIT", 0, limit));
    if (seqs.length === 0) return 0;
    const texts = await link.run((redis) => redis.mget(seqs.map((seq) => keys.event(Number(seq)))));
    const rows = texts.flatMap((text, index) => {
      if (text === null) return [];
      const row = readEventRow(rowJson(text));
      // Registered since the list was read.
      return row.parkedUntil === null ? [] : [{ seq: String(Number(seqs[index])), version: rowVersion(text), row }];
    });
    const plans = new Map<string | null, PlanText>();
    const list = (await withVerdicts(rows)).flatMap(({ seq, version: before, row, kept }) => {
      const after = ended(row, kept, plans);
      const isIgnored = after.disposition === "ignored" ? "1" : "";
      return [seq, before, version() + writeEventRow(after), row.subject ?? "", String(row.receivedAt), isIgnored];
    });
    let sum = 0;
    await transact((tx) => {
      for (const { digest, verdicts } of new Set(plans.values())) tx.call("HSETNX", `${base}plans`, digest, verdicts);
      tx.operate(["expire", ...list], (result) => {
        sum = Number(result);
      });
    });
    return sum;
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
        seqs.map(async (seq) => ({ seq, row: await readEvent(tx, seq), body: await readBody(link, keys, seq) })),
      );
      const bodies = new Map(found.map(({ seq, body }) => [seq, body]));
      const rows = found.flatMap(({ seq, row }) => (row === null || row.parkedUntil === null ? [] : [{ seq, row }]));
      for (const { seq, row, kept } of await withVerdicts(rows)) {
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
      let sum = 0;
      for (let left = limit; left > 0; left -= mostAtOnce) {
        const most = Math.min(left, mostAtOnce);
        const some = await expireSome(now, most);
        sum += some;
        // No more are due, or another process is at them.
        if (some < most) break;
      }
      return sum;
    },
  };
}

export type Parking = ReturnType<typeof createParking>;

const untracked = (route: string): RouteVerdict => ({ route, verdict: "skip", reason: "untracked" });
