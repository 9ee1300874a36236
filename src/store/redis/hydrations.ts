import type { ReceivedEvent } from "../../model/event.ts";
import type { Covering, GiveUpReason, HydrationEnd, HydrationStart } from "../../model/hydration.ts";

import { dropReplaced, type HydrationResult, isParked, isReplaced, releaseTruncated } from "../../track/parking.ts";
import { planTruncated } from "../../track/planning.ts";
import type { DueDelivery } from "../rules.ts";
import { mostCandidates, mostFoundShown, mostOpenRuns, type SettledHydrations, targetOf } from "../service-port.ts";
import type { HydrationView } from "../views.ts";
import type { RedisLink } from "./client.ts";
import type { Operation } from "./commit.ts";
import type { StoredEvents } from "./event-rows.ts";
import { type EventRow, readBody, readEventRow } from "./event-rows.ts";
import { findOpenPass } from "./hydration-passes.ts";
import { type Keys, messageName, readSubjectName, runName, type SubjectName } from "./keys.ts";
import { concludeEvent, deliverAll } from "./plans.ts";
import {
  candidatesOf,
  type HydrationRow,
  hideSeq,
  readHydrationRow,
  readPassRow,
  readSubjectRow,
  rowJson,
  targetMember,
  writeHydrationRow,
} from "./rows.ts";
import type { Transaction, WriteParts } from "./transact.ts";

interface BeginParts {
  readonly keys: Keys;
  readonly link: RedisLink;
  readonly version: () => string;
}

/** Placeholder for the seq of the event being accepted; `call_with_seq` in lua/operations.lua replaces it. */
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
    const unsettled = { polled: 0, found: 0, last: null, subject: null };
    if (start.state === "waiting") {
      const row = { ...unsettled, state: start.state, reason: null, target, unknown: null, candidates: null, settledAt: null };
      const operations: Operation[] = [
        put(row),
        ["call_with_seq", "SADD", `${base}hydrating`, account],
        ["call_with_seq", "ZADD", `${base}hw:${account}`, String(receivedAt), newSeq],
      ];
      if (target !== null) operations.push(["call_with_seq", "ZADD", `${base}ht:${account}`, "0", targetMember(target, newSeq)]);
      return operations;
    }
    const { runs, open } = envelope.event.startsWith("automation.") ? await candidatesOf(account, target) : { runs: null, open: null };
    const over = { ...unsettled, state: start.state, reason: start.reason, target: null };
    return [put({ ...over, unknown: open, candidates: runs, settledAt: receivedAt })];
  };

  function put(row: HydrationRow): Operation {
    return ["call_with_seq", "SET", `${base}h:${newSeq}`, version() + hideSeq(writeHydrationRow(row))];
  }
}

interface End {
  readonly reason: GiveUpReason | null;
  readonly unknown: number;
  readonly subject: SubjectName | null;
  /** The id by which the event was found; null: by none. */
  readonly target: string | null;
  /** Calls made; null: all calls of the pass. */
  readonly polled: number | null;
}

/** Events settled in one turn. They are written together, which blocks Redis for some milliseconds. */
const mostAtOnce = 50;

const none: SettledHydrations = { events: 0, due: [] };

/** Settles truncated events that wait, each in a step of its own and by one process. */
export function createHydrations({ keys, link, rules, transact, events }: WriteParts) {
  const { base } = keys;

  async function planNow(seq: number, { account, source }: EventRow): Promise<ReturnType<typeof planTruncated>> {
    const body = await readBody(link, keys, seq);
    return body === null ? null : planTruncated(rules, { account, source, body });
  }

  /** Delivers the event to the routes that parked it, unless polled statuses replace it. */
  async function release(tx: Transaction, seq: number, row: EventRow, result: HydrationResult, now: number): Promise<DueDelivery[]> {
    const due: DueDelivery[] = [];
    const [kept = []] = await events.verdicts([row]);
    if (!isParked(kept)) return due;
    const concluded = isReplaced(result) ? dropReplaced(kept) : releaseTruncated(kept, await planNow(seq, row));
    concludeEvent(tx, keys, seq, row, concluded);
    deliverAll(tx, rules, { seq, subject: null, verdicts: concluded.released, at: now }, due);
    return due;
  }

  function settleOne(pass: Covering, seq: number, end: End, now: number): Promise<SettledHydrations> {
    const { account } = pass;
    return transact(async (tx) => {
      const [open, eventJson, json] = await Promise.all([
        findOpenPass(tx, keys, pass),
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
      const found = await countMade(keys, link, { account, after: seq, last, subject });
      const settled = { ...row, target: null, reason, subject, unknown, found, last, polled: end.polled ?? open.polled, settledAt: now };
      tx.put(keys.of(`h:${seq}`), writeHydrationRow({ ...settled, state: reason === null ? "done" : "given-up" }));
      return { events: 1, due: await release(tx, seq, readEventRow(eventJson), { reason, found, unknown }, now) };
    });
  }

  async function settleAll(pass: Covering, seqs: readonly string[], end: End, now: number): Promise<SettledHydrations> {
    const due: DueDelivery[] = [];
    let settled = 0;
    for (let from = 0; from < seqs.length; from += mostAtOnce) {
      const some = seqs.slice(from, from + mostAtOnce);
      for (const one of await Promise.all(some.map((seq) => settleOne(pass, Number(seq), end, now)))) {
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
    /** `wamid`: of the message that the service has under this id; null: it has none, and the events are left to the pass. */
    async settleTarget(pass: Covering, target: string, wamid: string | null, now: number): Promise<SettledHydrations> {
      const list = `${base}ct:${pass.account}`;
      const prefix = targetMember(target, "");
      const members = await link.run((redis) => redis.zrangebylex(list, `[${prefix}`, `(${prefix}:`));
      if (members.length === 0) return none;
      if (wamid === null) {
        await link.run((redis) => redis.zrem(list, ...members));
        return none;
      }
      const end = { reason: null, unknown: 0, subject: messageName(pass.account, wamid), target, polled: 1 };
      return settleAll(
        pass,
        members.map((member) => member.slice(prefix.length)),
        end,
        now,
      );
    },
    /** Ends covered events received at `receivedBy` or earlier; fewer than `limit`: there are no more. */
    async settleCovered(
      pass: Covering,
      { reason, unknown, receivedBy }: HydrationEnd,
      now: number,
      limit: number,
    ): Promise<SettledHydrations> {
      const list = `${base}hc:${pass.account}`;
      const due: DueDelivery[] = [];
      let settled = 0;
      while (settled < limit) {
        const seqs = await link.run((redis) => redis.zrangebyscore(list, "-inf", receivedBy, "LIMIT", 0, limit - settled));
        if (seqs.length === 0) break;
        const some = await settleAll(pass, seqs, { reason, unknown, subject: null, target: null, polled: null }, now);
        settled += some.events;
        due.push(...some.due);
        // Another process has ended this pass.
        if (some.events === 0 && !(await isOpen(pass))) break;
      }
      return { events: settled, due };
    },
  };

  async function isOpen(pass: Covering): Promise<boolean> {
    return transact(async (tx) => (await findOpenPass(tx, keys, pass)) !== null);
  }
}

/** See `targetMember`. */
function targetOfMember(member: string): string {
  return JSON.parse(member.slice(0, member.lastIndexOf('"') + 1)) as string;
}

/** The hydration of a truncated event with the events found for it, so far while it waits. Null for other events. */
export function createReadHydrations(keys: Keys, link: RedisLink, events: Pick<StoredEvents, "rows">) {
  const { base } = keys;

  /** Calls of the pass that covers the event; 0 when none has begun. */
  async function callsSoFar(account: string, seq: number): Promise<number> {
    const [row, at] = await Promise.all([
      link.run((redis) => redis.get(`${base}pass:${account}`)),
      link.run((redis) => redis.zscore(`${base}hc:${account}`, String(seq))),
    ]);
    return row === null || at === null ? 0 : readPassRow(row).polled;
  }

  return async function hydrationOf(seq: number): Promise<HydrationView | null> {
    const [text, event] = await link.run((redis) => redis.mget(keys.of(`h:${seq}`), keys.event(seq)));
    if (typeof text !== "string" || typeof event !== "string") return null;
    const row = readHydrationRow(rowJson(text));
    const { account } = readEventRow(rowJson(event));
    const { state, reason, subject, unknown, settledAt } = row;
    const isWaiting = settledAt === null;
    const range = { account, after: seq, last: row.last ?? Number.MAX_SAFE_INTEGER, subject };
    // An event that was settled at once was never polled for: later events are not its own.
    const wasOver = !isWaiting && row.last === null;
    const found = wasOver ? [] : await events.rows(await madeSeqs(keys, link, range, mostFoundShown));
    return {
      state,
      reason,
      polled: isWaiting ? await callsSoFar(account, seq) : row.polled,
      found: found.map(({ id, seq, subject, status }) => ({ id: id as string, seq, wamid: wamidOf(subject), status })),
      foundCount: isWaiting ? await countMade(keys, link, range) : row.found,
      unknown,
      candidates: candidatesOf(row.candidates),
      settledAt,
    };
  };
}

function wamidOf(subject: string | null): string | null {
  if (subject === null) return null;
  const { type, key } = readSubjectName(subject);
  return type === "message" ? key : null;
}

/** Events that the relay made from polled state, of an account or of one message. */
interface MadeRange {
  readonly account: string;
  /** Seqs: `after` is exclusive, `last` inclusive. */
  readonly after: number;
  readonly last: number;
  readonly subject: SubjectName | null;
}

/** Events of one message that are read at once; a message has few. */
const mostOfMessage = 1_000;

async function countMade(keys: Keys, link: RedisLink, range: MadeRange): Promise<number> {
  if (range.subject !== null) return (await madeSeqs(keys, link, range, mostOfMessage)).length;
  return link.run((redis) => redis.zcount(keys.of(`made:${range.account}`), `(${range.after}`, range.last));
}

/** Up to `limit` seqs, smallest first. */
async function madeSeqs(keys: Keys, link: RedisLink, range: MadeRange, limit: number): Promise<number[]> {
  const { account, after, last, subject } = range;
  const made = keys.of(`made:${account}`);
  const list = subject === null ? made : keys.of(`es:${subject}`);
  const most = subject === null ? limit : mostOfMessage;
  const seqs = await link.run((redis) => redis.zrangebyscore(list, `(${after}`, last, "LIMIT", 0, most));
  if (subject === null || seqs.length === 0) return seqs.map(Number);
  const scores = await link.run((redis) => redis.zmscore(made, ...seqs));
  return seqs.flatMap((seq, index) => (scores[index] === null ? [] : [Number(seq)])).slice(0, limit);
}
