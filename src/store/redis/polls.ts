import type { ClaimedPoll, PollClaim, PollCounts, PollQuery, SettledPoll } from "../../model/poll.ts";
import { mostCounted } from "../service-port.ts";
import type { RedisLink } from "./client.ts";
import { type Keys, messageName, readSubjectName } from "./keys.ts";
import {
  lastRank,
  pollScore,
  rankStep,
  readPollRecord,
  readSubjectRow,
  rowJson,
  stateOf,
  writePollRecord,
  writeSubjectRow,
} from "./rows.ts";
import { readScript } from "./script.ts";
import type { Transact } from "./transact.ts";

const claimScript = readScript("claim-polls");
const settleScript = readScript("settle-polls");

/** Messages that are counted at once. */
const chunk = 500;

/** Range of indexes in a list; the second is exclusive. */
type Places = readonly [from: number, to: number];

/** Polls of messages. Claims hold for all processes; a message's key is its subject's name. */
export function createPolls(keys: Keys, link: RedisLink, transact: Transact) {
  const { base } = keys;

  function claimed(account: string, until: number, found: unknown): ClaimedPoll {
    const [wamid, dueAt, rank, record, row] = found as [string, string, number, string, string];
    const { since, polls, failures, misses, polledAt } = readPollRecord(record);
    const message = readSubjectRow(rowJson(row));
    return {
      message: messageName(account, wamid),
      until,
      wamid,
      messageId: message.serviceId ?? "",
      state: stateOf(message),
      since,
      dueAt: Number(dueAt),
      rank,
      polls,
      failures,
      misses,
      polledAt,
      readAt: message.readAt,
    };
  }

  async function statuses(account: string, wamids: readonly string[]): Promise<(string | null | undefined)[]> {
    const rows = await link.run((redis) => redis.mget(wamids.map((wamid) => keys.of(messageName(account, wamid)))));
    return rows.map((row) => (row === null ? undefined : readSubjectRow(rowJson(row)).status));
  }

  /** Counts the members of a range that `counts` selects, some at a time. */
  async function countSome(list: string, [from, to]: Places, counts: (wamids: readonly string[]) => Promise<number>): Promise<number> {
    let counted = 0;
    for (let place = from; place < to; place += chunk) {
      const wamids = await link.run((redis) => redis.zrange(list, String(place), String(Math.min(place + chunk, to) - 1)));
      if (wamids.length === 0) break;
      counted += await counts(wamids);
    }
    return counted;
  }

  /** Converts ranges of scores to ranges of indexes, because reading by index is fast anywhere in the list. */
  async function placesOf(list: string, ranges: readonly (readonly [from: number, to: number | "+inf"])[]): Promise<Places[]> {
    const found = await Promise.all(
      ranges.map(async ([from, to]): Promise<Places> => {
        const [before, within] = await Promise.all([
          link.run((redis) => redis.zcount(list, "-inf", `(${from}`)),
          link.run((redis) => redis.zcount(list, from, to)),
        ]);
        return [before, before + within];
      }),
    );
    return found.filter(([from, to]) => to > from);
  }

  async function countDue({ account, dueBy, after, from, resting, rare }: PollQuery): Promise<number> {
    const list = `${base}polls:${account}`;
    const ranges = Array.from({ length: lastRank + 1 }, (_, rank) => {
      return [pollScore(rank, 0), pollScore(rank, rank === 0 ? dueBy - after : dueBy)] as const;
    });
    let due = 0;
    let left = mostCounted;
    for (const [begin, end] of await placesOf(list, ranges)) {
      const places: Places = [begin, Math.min(end, begin + left)];
      left -= places[1] - places[0];
      due += await countSome(list, places, async (wamids) => {
        const records = await link.run((redis) => redis.hmget(`${base}poll:${account}`, ...wamids));
        const words = await statuses(account, wamids);
        return wamids.filter((_, index) => {
          const [record, status] = [records[index], words[index]];
          if (typeof record !== "string" || status === undefined) return false;
          const { since } = readPollRecord(record);
          if (since < from) return false;
          return status === null || (!resting.includes(status) && (since <= rare.sentBy || !rare.statuses.includes(status)));
        }).length;
      });
    }
    return due;
  }

  async function countUnpollable({ account, from, resting }: PollQuery): Promise<number> {
    const list = `${base}tn:${account}`;
    const [[begin, end] = [0, 0]] = await placesOf(list, [[from, "+inf"]]);
    return countSome(list, [begin, Math.min(end, begin + mostCounted)], async (wamids) => {
      const words = await statuses(account, wamids);
      return words.filter((status) => status === null || (status !== undefined && !resting.includes(status))).length;
    });
  }

  /** Also marks the message's row, where a later event or registration clears it. */
  function noteMissing({ message, until, at }: Extract<SettledPoll, { readonly end: "missing" }>): Promise<void> {
    const name = String(message);
    const { account, key: wamid } = readSubjectName(name);
    const [list, records] = [`${base}polls:${account}`, `${base}poll:${account}`];
    return transact(async (tx) => {
      const json = await tx.read(keys.of(name));
      const [score, kept] = await Promise.all([
        link.run((redis) => redis.zscore(list, wamid)),
        link.run((redis) => redis.hget(records, wamid)),
      ]);
      if (json === null || kept === null || score === null || Number(score) % rankStep !== until) return;
      const record = readPollRecord(kept);
      tx.put(keys.of(name), writeSubjectRow({ ...readSubjectRow(json), isMissing: true }));
      tx.call("ZREM", list, wamid);
      tx.call("HSET", records, wamid, writePollRecord({ ...record, polls: record.polls + 1, polledAt: at }));
      tx.call("ZADD", `${base}missing:${account}`, String(at), wamid);
    });
  }

  return {
    /** Least polled messages first; among them the longest due. */
    async claimPolls({ account, now, dueBy, after, limit, leaseMs }: PollClaim): Promise<ClaimedPoll[]> {
      const until = now + leaseMs;
      const list = [base, account, String(dueBy), String(dueBy - after), String(limit), String(until)];
      const found = (await link.run((redis) => claimScript.run(redis, `${base}polls:${account}`, list))) as unknown[];
      return found.map((one) => claimed(account, until, one));
    },
    async settlePolls(settled: readonly SettledPoll[]): Promise<void> {
      const list = [base];
      for (const one of settled) {
        if (one.end === "missing") continue;
        const { account, key } = readSubjectName(String(one.message));
        list.push(account, key, String(one.until), one.end);
        if (one.end === "again") {
          const { polls, failures, polledAt, misses } = one;
          list.push(String(pollScore(one.rank, one.nextAt)), ...[polls, failures, polledAt ?? "-", misses].map(String));
        } else list.push("", "", "", "", "");
      }
      if (list.length > 1) await link.run((redis) => settleScript.run(redis, `${base}seq`, list));
      for (const one of settled) if (one.end === "missing") await noteMissing(one);
    },
    /** Exact up to a few thousand. */
    async countPolls(query: PollQuery): Promise<PollCounts> {
      // Concurrently awaited: a rejection without a handler would end the process.
      const [due, unpollable, missing] = await Promise.all([
        countDue(query),
        countUnpollable(query),
        link.run((redis) => redis.zcount(`${base}missing:${query.account}`, query.from, "+inf")),
      ]);
      return { due, unpollable, missing };
    },
  };
}
