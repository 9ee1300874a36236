import type { EventId } from "../../model/ids.ts";
import type { FoundView, HydrationView } from "../views.ts";
import type { RedisLink } from "./client.ts";
import { readEventRow } from "./event-rows.ts";
import { type Keys, readSubjectName, type SubjectName } from "./keys.ts";
import { candidatesOf, readHydrationRow, readSweepRow, rowJson } from "./rows.ts";
import type { StoredEvents } from "./stored-events.ts";

/** Found events listed per truncated event. */
const mostShown = 100;

/** The hydration of a truncated event with the events found for it, so far while it waits. Null for other events. */
export function createReadHydrations(keys: Keys, link: RedisLink, events: Pick<StoredEvents, "rows">) {
  const { base } = keys;

  /** Calls of the sweep that covers the event; 0 when none has begun. */
  async function askedSoFar(account: string, seq: number): Promise<number> {
    const [row, at] = await Promise.all([
      link.run((redis) => redis.get(`${base}sw:${account}`)),
      link.run((redis) => redis.zscore(`${base}hc:${account}`, String(seq))),
    ]);
    return row === null || at === null ? 0 : readSweepRow(row).asked;
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
    const news = wasOver ? [] : await events.rows(await learnedSeqs(keys, link, range, mostShown));
    return {
      state,
      reason,
      asked: isWaiting ? await askedSoFar(account, seq) : row.asked,
      found: news.map(({ id, seq, subject, status }): FoundView => ({ id: id as EventId, seq, wamid: wamidOf(subject), status })),
      foundCount: isWaiting ? await countLearned(keys, link, range) : row.found,
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
interface LearnedRange {
  readonly account: string;
  /** Seqs: `after` is exclusive, `last` inclusive. */
  readonly after: number;
  readonly last: number;
  readonly subject: SubjectName | null;
}

/** Events of one message that are read at once; a message has few. */
const mostOfMessage = 1_000;

export async function countLearned(keys: Keys, link: RedisLink, range: LearnedRange): Promise<number> {
  if (range.subject !== null) return (await learnedSeqs(keys, link, range, mostOfMessage)).length;
  return link.run((redis) => redis.zcount(keys.of(`learned:${range.account}`), `(${range.after}`, range.last));
}

/** Up to `limit` seqs, smallest first. */
async function learnedSeqs(keys: Keys, link: RedisLink, range: LearnedRange, limit: number): Promise<number[]> {
  const { account, after, last, subject } = range;
  const learned = keys.of(`learned:${account}`);
  const list = subject === null ? learned : keys.of(`es:${subject}`);
  const most = subject === null ? limit : mostOfMessage;
  const seqs = await link.run((redis) => redis.zrangebyscore(list, `(${after}`, last, "LIMIT", 0, most));
  if (subject === null || seqs.length === 0) return seqs.map(Number);
  const scores = await link.run((redis) => redis.zmscore(learned, ...seqs));
  return seqs.flatMap((seq, index) => (scores[index] === null ? [] : [Number(seq)])).slice(0, limit);
}
