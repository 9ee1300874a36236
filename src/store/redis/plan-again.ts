import type { PlanAgainFilter, ReplayCursor, Replayed, ReplayFound } from "../port.ts";
import { addVerdicts, type DueDelivery, type Facts, judgeAgain, nothingTracked, type Rules } from "../rules.ts";
import type { RedisLink } from "./client.ts";
import { concludeEvent, deliverAll } from "./conclude-event.ts";
import { type EventRow, readBodies, readBody, readEventRow } from "./event-rows.ts";
import { type Keys, readSubjectName, type SubjectName } from "./keys.ts";
import { isMeant } from "./replay-walk.ts";
import { readSubjectRow, rowJson, unseenSubject } from "./rows.ts";
import type { LiveSeqs, StoredEvent, StoredEvents } from "./stored-events.ts";
import { factsOf } from "./track.ts";
import type { Transact } from "./transact.ts";

interface Parts {
  readonly keys: Keys;
  readonly link: RedisLink;
  readonly rules: Rules;
  readonly transact: Transact;
  readonly live: Pick<LiveSeqs, "after">;
  readonly events: Pick<StoredEvents, "rows" | "verdicts">;
}

/** Events planned in one step. */
const mostAtOnce = 20;
/** Bodies held in memory at once. */
const mostBytes = 4 * 1024 * 1024;

/**
 * A registration that came too late, or a route added since: events that were ignored or filtered get their deliveries
 * after all. A route never gets one twice (promise 2): what was planned for it stays, and only new verdicts are added.
 */
export function createPlanAgain({ keys, link, rules, transact, live, events }: Parts) {
  async function planOf(row: EventRow, body: Buffer, subject: string | null, only: string | undefined) {
    const [kept = []] = await events.verdicts([row]);
    return addVerdicts(kept, judgeAgain(rules, { ...row, body }, factsFrom(row.subject, subject)) ?? [], only);
  }

  async function lookAt(rows: readonly StoredEvent[], route: string | undefined): Promise<ReplayFound["found"]> {
    if (rows.length === 0) return [];
    const bodies = await readBodies(
      link,
      keys,
      rows.map(({ seq }) => seq),
    );
    const names = rows.map(({ subject }) => subject ?? "");
    const subjects = await link.run((redis) => redis.mget(names.map(keys.of)));
    const found = await Promise.all(
      rows.map(async (row, index) => {
        const body = bodies[index] ?? null;
        const subject = row.subject === null ? null : (subjects[index] ?? null);
        if (body === null) return [];
        const { added } = await planOf(row, body, subject === null ? null : rowJson(subject), route);
        return added.map((verdict) => ({ event: row.seq, route: verdict.route }));
      }),
    );
    return found.flat();
  }

  async function planSome(seqs: readonly number[], { disposition, route }: PlanAgainFilter, at: number): Promise<Replayed> {
    return transact(async (tx) => {
      const due: DueDelivery[] = [];
      let replayed = 0;
      for (const seq of seqs) {
        const json = await tx.read(keys.event(seq));
        const row = json === null ? null : readEventRow(json);
        if (row === null || row.disposition !== disposition) continue;
        const subject = row.subject === null ? null : await tx.read(keys.of(row.subject));
        const body = await readBody(link, keys, seq);
        if (body === null) continue;
        const { verdicts, added } = await planOf(row, body, subject, route);
        if (added.length === 0) continue;
        concludeEvent(tx, keys, seq, row, { disposition: "forwarded", verdicts });
        deliverAll(tx, rules, { seq, subject: row.subject, verdicts: added, at, replays: 1 }, due);
        replayed += added.length;
      }
      return { replayed, due };
    });
  }

  return {
    /** The next events that a filter means, `limit` looked at, with the routes that would get them; writes nothing. */
    async look(filter: PlanAgainFilter, cursor: ReplayCursor, limit: number): Promise<ReplayFound> {
      const seqs = await live.after(cursor.event, limit);
      const rows = (await events.rows(seqs)).filter(
        (row) => row.disposition === filter.disposition && row.receivedAt <= cursor.since && isMeant(filter, row),
      );
      const found: ReplayFound["found"][number][] = [];
      for (const some of byBytes(rows)) found.push(...(await lookAt(some, filter.route)));
      const last = seqs.at(-1);
      return { found, cursor: last === undefined || seqs.length < limit ? null : { since: cursor.since, event: last, route: 0 } };
    },
    /** Those of the events that still are what the filter means get their deliveries, in their order. */
    async plan(seqs: readonly number[], filter: PlanAgainFilter, at: number): Promise<Replayed> {
      const due: DueDelivery[] = [];
      let replayed = 0;
      for (let from = 0; from < seqs.length; from += mostAtOnce) {
        const done = await planSome(seqs.slice(from, from + mostAtOnce), filter, at);
        due.push(...done.due);
        replayed += done.replayed;
      }
      return { replayed, due };
    },
  };
}

function factsFrom(name: SubjectName | null, json: string | null): Facts {
  if (name === null) return nothingTracked;
  return factsOf(readSubjectName(name).type, json === null ? unseenSubject : readSubjectRow(json));
}

function byBytes(rows: readonly StoredEvent[]): StoredEvent[][] {
  const groups: StoredEvent[][] = [];
  let bytes = mostBytes;
  for (const row of rows) {
    bytes += row.size;
    if (bytes > mostBytes) {
      groups.push([]);
      bytes = row.size;
    }
    groups.at(-1)?.push(row);
  }
  return groups;
}
