import type { ReceivedEvent } from "../../model/event.ts";
import type { Covering, GiveUpReason, HydrationEnd, HydrationStart } from "../../model/hydration.ts";
import type { RouteVerdict } from "../../model/plan.ts";
import { againBy, concludeVerdicts, type DueDelivery, judgeTruncated, type Rules } from "../rules.ts";
import { mostCandidates, mostOpenRuns, type SettledHydrations, targetOf } from "../service-port.ts";
import type { RedisLink } from "./client.ts";
import type { Operation } from "./commit.ts";
import { type EventRow, readBody, readEventRow } from "./event-rows.ts";
import { type Keys, messageName, runName, type SubjectName } from "./keys.ts";
import { concludeEvent, deliverAll } from "./plan-event.ts";
import { countLearned } from "./read-hydrations.ts";
import { type HydrationRow, hideSeq, readHydrationRow, readSubjectRow, rowJson, targetMember, writeHydrationRow } from "./rows.ts";
import type { StoredEvents } from "./stored-events.ts";
import { openSweep } from "./sweeps.ts";
import type { Transact, Transaction } from "./transact.ts";

interface BeginParts {
  readonly keys: Keys;
  readonly link: RedisLink;
  readonly version: () => string;
}

/** Placeholder for the seq of the event being accepted; `beside` in lua/operations.lua replaces it. */
const newSeq = "@seq@";

/** The operations that store the hydration of a truncated event, in the step that accepts it. */
export function createBeginHydration({ keys, link, version }: BeginParts) {
  const { base } = keys;

  async function references(account: string, runIds: readonly string[]): Promise<[string, string | null][]> {
    if (runIds.length === 0) return [];
    const rows = await link.run((redis) => redis.mget(runIds.map((runId) => keys.of(runName(account, runId)))));
    return runIds.flatMap((runId, index): [string, string | null][] => {
      const row = rows[index];
      return typeof row === "string" ? [[runId, readSubjectRow(rowJson(row)).reference]] : [];
    });
  }

  /** The run that the event names, when it is known; else the open runs. */
  async function candidatesOf(account: string, target: string | null): Promise<{ runs: [string, string | null][]; open: number }> {
    const named = target === null ? [] : await references(account, [target]);
    if (named.length > 0) return { runs: named, open: 1 };
    const list = `${base}runs:${account}`;
    const latest = await link.run((redis) => redis.zrevrange(list, 0, mostCandidates - 1));
    const open = await link.run((redis) => redis.zcard(list));
    return { runs: await references(account, latest), open: Math.min(open, mostOpenRuns) };
  }

  return async function beginHydration({ account, envelope, receivedAt }: ReceivedEvent, start: HydrationStart): Promise<Operation[]> {
    const target = targetOf(envelope.data);
    const unsettled = { asked: 0, found: 0, last: null, subject: null };
    if (start.state === "waiting") {
      const row = { ...unsettled, state: start.state, reason: null, target, unknown: null, candidates: null, settledAt: null };
      const operations: Operation[] = [
        put(row),
        ["beside", "SADD", `${base}hydrating`, account],
        ["beside", "ZADD", `${base}hw:${account}`, String(receivedAt), newSeq],
      ];
      if (target !== null) operations.push(["beside", "ZADD", `${base}ht:${account}`, "0", targetMember(target, newSeq)]);
      return operations;
    }
    const { runs, open } = envelope.event.startsWith("automation.") ? await candidatesOf(account, target) : { runs: null, open: null };
    const over = { ...unsettled, state: start.state, reason: start.reason, target: null };
    return [put({ ...over, unknown: open, candidates: runs, settledAt: receivedAt })];
  };

  function put(row: HydrationRow): Operation {
    return ["beside", "SET", `${base}h:${newSeq}`, version() + hideSeq(writeHydrationRow(row))];
  }
}

interface Parts {
  readonly keys: Keys;
  readonly link: RedisLink;
  readonly rules: Rules;
  readonly transact: Transact;
  readonly events: Pick<StoredEvents, "verdicts">;
}

interface End {
  readonly reason: GiveUpReason | null;
  readonly unknown: number;
  readonly subject: SubjectName | null;
  /** The id by which the event was found; null: by none. */
  readonly target: string | null;
  /** Calls made; null: all calls of the sweep. */
  readonly asked: number | null;
}

/** Events settled in one turn. They are written together, which blocks Redis for some milliseconds. */
const mostAtOnce = 50;

const none: SettledHydrations = { events: 0, due: [] };

/** Settles truncated events that wait, each in a step of its own and by one process. */
export function createHydrations({ keys, link, rules, transact, events }: Parts) {
  const { base } = keys;

  /** The final verdicts of the routes that held the event back. */
  async function judge(seq: number, { account, source }: EventRow): Promise<(route: string) => RouteVerdict> {
    const body = await readBody(link, keys, seq);
    const fresh = body === null ? null : judgeTruncated(rules, { account, source, body });
    return fresh === null ? (route) => ({ route, verdict: "deliver" }) : againBy(fresh);
  }

  /** Delivers the event to the routes that held it back, unless the events found instead account for all of it. */
  async function release(tx: Transaction, seq: number, row: EventRow, isAccountedFor: boolean, now: number): Promise<DueDelivery[]> {
    const due: DueDelivery[] = [];
    const [kept = []] = await events.verdicts([row]);
    if (row.disposition === "quarantined" || !kept.some(([, verdict]) => verdict === "park")) return due;
    const again = isAccountedFor ? hydrated : await judge(seq, row);
    const { verdicts, released, isDelivered } = concludeVerdicts(kept, again);
    concludeEvent(tx, keys, seq, row, { disposition: isDelivered ? "routed" : "filtered", verdicts });
    deliverAll(tx, rules, { seq, subject: null, verdicts: released, at: now }, due);
    return due;
  }

  function settleOne(sweep: Covering, seq: number, end: End, now: number): Promise<SettledHydrations> {
    const { account } = sweep;
    return transact(async (tx) => {
      const [open, eventJson, json] = await Promise.all([
        openSweep(tx, keys, sweep),
        tx.read(keys.event(seq)),
        tx.read(keys.of(`h:${seq}`)),
      ]);
      if (open === null) return none;
      tx.call("ZREM", `${base}hc:${account}`, String(seq));
      const row = json === null ? null : readHydrationRow(json);
      const target = end.target ?? row?.target ?? null;
      if (target !== null) tx.call("ZREM", `${base}ct:${account}`, targetMember(target, seq));
      if (eventJson === null || row === null) return none;
      if (row.state !== "waiting") return none;

      const { reason, unknown, subject } = end;
      // News are stored under greater seqs than the one read here only after this.
      const last = Number((await link.run((redis) => redis.get(`${base}seq`))) ?? seq);
      const found = await countLearned(keys, link, { account, after: seq, last, subject });
      const settled = { ...row, target: null, reason, subject, unknown, found, last, asked: end.asked ?? open.asked, settledAt: now };
      tx.put(keys.of(`h:${seq}`), writeHydrationRow({ ...settled, state: reason === null ? "done" : "given-up" }));
      const isAccountedFor = reason === null && found > 0 && unknown === 0;
      return { events: 1, due: await release(tx, seq, readEventRow(eventJson), isAccountedFor, now) };
    });
  }

  async function settleAll(sweep: Covering, seqs: readonly string[], end: End, now: number): Promise<SettledHydrations> {
    const due: DueDelivery[] = [];
    let settled = 0;
    for (let from = 0; from < seqs.length; from += mostAtOnce) {
      const some = seqs.slice(from, from + mostAtOnce);
      for (const one of await Promise.all(some.map((seq) => settleOne(sweep, Number(seq), end, now)))) {
        settled += one.events;
        due.push(...one.due);
      }
    }
    return { events: settled, due };
  }

  const firstAt = async (list: string): Promise<number | null> => {
    const [, at] = await link.run((redis) => redis.zrange(list, "0", "0", "WITHSCORES"));
    return at === undefined ? null : Number(at);
  };

  async function waitingSince(account: string): Promise<number | null> {
    const found = await Promise.all([firstAt(`${base}hc:${account}`), firstAt(`${base}hw:${account}`)]);
    const times = found.filter((at) => at !== null);
    return times.length === 0 ? null : Math.min(...times);
  }

  return {
    async waitingAccounts(): Promise<string[]> {
      const accounts = await link.run((redis) => redis.smembers(`${base}hydrating`));
      const since = await Promise.all(accounts.map(waitingSince));
      return accounts.filter((_, index) => since[index] !== null);
    },
    waitingSince,
    /** The ids in covered events, each once. */
    async targets({ account }: Covering, limit: number): Promise<string[]> {
      const found = new Set<string>();
      let from = "-";
      while (found.size < limit) {
        const members = await link.run((redis) => redis.zrangebylex(`${base}ct:${account}`, from, "+", "LIMIT", 0, limit));
        const last = members.at(-1);
        if (last === undefined) break;
        for (const member of members) if (found.size < limit) found.add(targetOfMember(member));
        from = `(${last}`;
      }
      return [...found];
    },
    /** `wamid`: of the message that the service has under this id; null: it has none, and the events are left to the sweep. */
    async settleTarget(sweep: Covering, target: string, wamid: string | null, now: number): Promise<SettledHydrations> {
      const list = `${base}ct:${sweep.account}`;
      const prefix = targetMember(target, "");
      const members = await link.run((redis) => redis.zrangebylex(list, `[${prefix}`, `(${prefix}:`));
      if (members.length === 0) return none;
      if (wamid === null) {
        await link.run((redis) => redis.zrem(list, ...members));
        return none;
      }
      const end = { reason: null, unknown: 0, subject: messageName(sweep.account, wamid), target, asked: 1 };
      return settleAll(
        sweep,
        members.map((member) => member.slice(prefix.length)),
        end,
        now,
      );
    },
    /** Ends covered events received at `receivedBy` or earlier; fewer than `limit`: there are no more. */
    async settleCovered(
      sweep: Covering,
      { reason, unknown, receivedBy }: HydrationEnd,
      now: number,
      limit: number,
    ): Promise<SettledHydrations> {
      const list = `${base}hc:${sweep.account}`;
      const due: DueDelivery[] = [];
      let settled = 0;
      while (settled < limit) {
        const seqs = await link.run((redis) => redis.zrangebyscore(list, "-inf", receivedBy, "LIMIT", 0, limit - settled));
        if (seqs.length === 0) break;
        const some = await settleAll(sweep, seqs, { reason, unknown, subject: null, target: null, asked: null }, now);
        settled += some.events;
        due.push(...some.due);
        // Another process has ended this sweep.
        if (some.events === 0 && !(await isOpen(sweep))) break;
      }
      return { events: settled, due };
    },
  };

  async function isOpen(sweep: Covering): Promise<boolean> {
    return transact(async (tx) => (await openSweep(tx, keys, sweep)) !== null);
  }
}

const hydrated = (route: string): RouteVerdict => ({ route, verdict: "skip", reason: "hydrated" });

/** See `targetMember`. */
function targetOfMember(member: string): string {
  return JSON.parse(member.slice(0, member.lastIndexOf('"') + 1)) as string;
}
