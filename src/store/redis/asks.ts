import type { AskClaim, AskCounts, AskQuery, ClaimedAsk, SettledAsk } from "../asks.ts";
import { askScore, lastRank, readAskRecord } from "./ask-record.ts";
import { type Keys, messageName, readSubjectName } from "./keys.ts";
import type { RedisLink } from "./link.ts";
import { readScript } from "./script.ts";
import { messageStateOf, readSubjectRow } from "./subject-row.ts";
import { rowJson } from "./transact.ts";

const claimScript = readScript("claim-asks");
const settleScript = readScript("settle-asks");

/** Most messages that are counted, and how many are looked at at once. */
const mostCounted = 20_000;
const chunk = 500;

/** What is asked about. Claims hold over all processes; a message's key is its subject's name. */
export function createAsks(keys: Keys, link: RedisLink) {
  const { base } = keys;

  function claimed(account: string, until: number, found: unknown): ClaimedAsk {
    const [wamid, dueAt, rank, record, row] = found as [string, string, number, string, string];
    const { since, asks, failures, askedAt } = readAskRecord(record);
    const message = readSubjectRow(rowJson(row));
    return {
      message: messageName(account, wamid),
      until,
      wamid,
      messageId: message.serviceId ?? "",
      state: messageStateOf(message),
      since,
      dueAt: Number(dueAt),
      rank,
      asks,
      failures,
      askedAt,
      readAt: message.askedAt,
    };
  }

  async function statuses(account: string, wamids: readonly string[]): Promise<(string | null | undefined)[]> {
    const rows = await link.run((redis) => redis.mget(wamids.map((wamid) => keys.of(messageName(account, wamid)))));
    return rows.map((row) => (row === null ? undefined : readSubjectRow(rowJson(row)).status));
  }

  /** Counts what `counts` picks of a list between two scores, some at a time, up to `most` looked at. */
  async function countSome(
    list: string,
    [from, to]: readonly [string | number, string | number],
    most: number,
    counts: (wamids: readonly string[]) => Promise<number>,
  ): Promise<{ readonly counted: number; readonly looked: number }> {
    let counted = 0;
    let looked = 0;
    while (looked < most) {
      const wamids = await link.run((redis) => redis.zrangebyscore(list, from, to, "LIMIT", looked, Math.min(chunk, most - looked)));
      if (wamids.length > 0) counted += await counts(wamids);
      looked += wamids.length;
      if (wamids.length < chunk) break;
    }
    return { counted, looked };
  }

  async function countDue({ account, dueBy, after, from, resting, rare }: AskQuery): Promise<number> {
    const places = [];
    for (let rank = 0; rank <= lastRank; rank++)
      places.push([askScore(rank, 0), askScore(rank, rank === 0 ? dueBy - after : dueBy)] as const);
    const list = `${base}asks:${account}`;
    let due = 0;
    let looked = 0;
    for (const place of await occupied(list, places)) {
      const sum = await countSome(list, place, mostCounted - looked, async (wamids) => {
        const records = await link.run((redis) => redis.hmget(`${base}ask:${account}`, ...wamids));
        const words = await statuses(account, wamids);
        return wamids.filter((_, index) => {
          const [record, status] = [records[index], words[index]];
          if (typeof record !== "string" || status === undefined) return false;
          const { since } = readAskRecord(record);
          if (since < from) return false;
          return status === null || (!resting.includes(status) && (since <= rare.sentBy || !rare.statuses.includes(status)));
        }).length;
      });
      due += sum.counted;
      looked += sum.looked;
    }
    return due;
  }

  /** Of ranges of a list those that have anything, found in one round trip: most ranks are empty. */
  async function occupied<Range extends readonly [number, number]>(list: string, ranges: readonly Range[]): Promise<Range[]> {
    const counts = await Promise.all(ranges.map(([from, to]) => link.run((redis) => redis.zcount(list, from, to))));
    return ranges.filter((_, index) => counts[index] !== 0);
  }

  return {
    /** Those asked least often first, the longest due first among them. */
    async claimAsks({ account, now, dueBy, after, limit, leaseMs }: AskClaim): Promise<ClaimedAsk[]> {
      const until = now + leaseMs;
      const list = [base, account, String(dueBy), String(dueBy - after), String(limit), String(until)];
      const found = (await link.run((redis) => claimScript.run(redis, `${base}asks:${account}`, list))) as unknown[];
      return found.map((one) => claimed(account, until, one));
    },
    async settleAsks(settled: readonly SettledAsk[]): Promise<void> {
      if (settled.length === 0) return;
      const list = [base];
      for (const one of settled) {
        const { account, key } = readSubjectName(String(one.message));
        list.push(account, key, String(one.until), one.end);
        if (one.end === "again")
          list.push(String(askScore(one.rank, one.nextAt)), String(one.asks), String(one.failures), String(one.askedAt ?? "-"));
        else list.push("", "", "", one.end === "missing" ? String(one.at) : "");
      }
      await link.run((redis) => settleScript.run(redis, `${base}seq`, list));
    },
    /** Exact up to some thousands. */
    async countAsks(query: AskQuery): Promise<AskCounts> {
      const { account, from, resting } = query;
      const unaskable = countSome(`${base}tn:${account}`, [from, "+inf"], mostCounted, async (wamids) => {
        const words = await statuses(account, wamids);
        return words.filter((status) => status === null || (status !== undefined && !resting.includes(status))).length;
      });
      const missing = link.run((redis) => redis.zcount(`${base}missing:${account}`, from, "+inf"));
      return { due: await countDue(query), unaskable: (await unaskable).counted, missing: await missing };
    },
  };
}
