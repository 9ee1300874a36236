import type { RedisLink } from "./client.ts";
import type { Keys, SubjectName } from "./keys.ts";

/** News that the relay learned by asking: of an account, or of one message. */
export interface LearnedRange {
  readonly account: string;
  /** Seqs; the first is not part of it, the last is. */
  readonly after: number;
  readonly last: number;
  readonly subject: SubjectName | null;
}

/** Seqs of events about one message that are read at once: it has few. */
const mostOfMessage = 1_000;

export async function countLearned(keys: Keys, link: RedisLink, range: LearnedRange): Promise<number> {
  if (range.subject !== null) return (await learnedSeqs(keys, link, range, mostOfMessage)).length;
  return link.run((redis) => redis.zcount(keys.of(`learned:${range.account}`), `(${range.after}`, range.last));
}

/** Up to `limit` of them, smallest first. */
export async function learnedSeqs(keys: Keys, link: RedisLink, range: LearnedRange, limit: number): Promise<number[]> {
  const { account, after, last, subject } = range;
  const learned = keys.of(`learned:${account}`);
  const list = subject === null ? learned : keys.of(`es:${subject}`);
  const most = subject === null ? limit : mostOfMessage;
  const seqs = await link.run((redis) => redis.zrangebyscore(list, `(${after}`, last, "LIMIT", 0, most));
  if (subject === null || seqs.length === 0) return seqs.map(Number);
  const scores = await link.run((redis) => redis.zmscore(learned, ...seqs));
  return seqs.flatMap((seq, index) => (scores[index] === null ? [] : [Number(seq)])).slice(0, limit);
}
