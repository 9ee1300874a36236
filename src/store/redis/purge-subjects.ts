import type { RetentionTimes } from "../port.ts";
import type { RedisLink } from "./client.ts";
import type { Operation } from "./commit.ts";
import { type Keys, readSubjectName, type SubjectName } from "./keys.ts";
import { joinRetention, readRetentionRow, readSubjectRow, retentionRowName, rowJson, rowVersion, type StoredSubject } from "./rows.ts";
import { indexesOf, indexSubject } from "./subjects.ts";
import type { Transact, Transaction } from "./transact.ts";

interface Parts {
  readonly keys: Keys;
  readonly link: RedisLink;
  readonly transact: Transact;
}

interface PurgedSubjects {
  readonly messages: number;
  /** False when nothing is left to delete. */
  readonly more: boolean;
}

interface Found {
  readonly name: SubjectName;
  readonly version: string;
  readonly row: StoredSubject;
}

/** Subjects that were only seen are checked again after this at the latest: the settings may have changed. */
const latestLookMs = 86_400_000;
/** Walks over the registered subjects within their retention time, which sets how exact it is. */
const walksInTime = 100;

/**
 * Deletes messages and runs: registered ones after `messages`, those only seen after `ignored`, but none before its last
 * event, because a late event could then move a status backwards. The purge of events lists seen subjects without events
 * in `bare`; registered subjects are walked over at intervals.
 */
export function createPurgeSubjects({ keys, link, transact }: Parts) {
  const { base } = keys;
  const rowKey = keys.of(retentionRowName);
  /** Position of this process' walk; null: none is running. */
  let walk: { readonly since: number; readonly kind: "m" | "r"; readonly after: number } | null = null;

  async function rowsOf(names: readonly SubjectName[]): Promise<Found[]> {
    if (names.length === 0) return [];
    const found = await link.run((redis) => redis.mget(names.map(keys.of)));
    return found.flatMap((text, index) =>
      text === null ? [] : [{ name: names[index] as string, version: rowVersion(text), row: readSubjectRow(rowJson(text)) }],
    );
  }

  function forgetOf({ name, version, row }: Found): Operation {
    const kind = readSubjectName(name).type === "message" ? "m" : "r";
    const released = row.releasedTo === null ? [] : ["ZREM", `${base}releasing`, name];
    const lists = row.registeredAt === null ? [`${base}seen:${kind}`] : [`${base}registered:${kind}`, ...indexesOf(base, kind, row)];
    const places = indexSubject(base, name, row, null).flatMap(([, ...command]) => command);
    return ["forget", name, version, ...lists.flatMap((list) => ["ZREM", list, name]), ...released, ...places];
  }

  async function forget(found: readonly Found[], beside?: (tx: Transaction) => void): Promise<number> {
    let forgotten = 0;
    await transact((tx) => {
      beside?.(tx);
      for (const one of found) {
        tx.operate(forgetOf(one), (result) => {
          forgotten += Number(result);
        });
      }
    });
    return forgotten;
  }

  async function isWalkDue(now: number, keep: RetentionTimes): Promise<boolean> {
    const stored = await link.run((redis) => redis.get(rowKey));
    const { walkedAt } = readRetentionRow(stored === null ? null : rowJson(stored));
    // After a clock that was ahead, do not wait for that time.
    return Math.abs(now - walkedAt) >= keep.messages / walksInTime;
  }

  return {
    /** Subjects that were only seen and have no events left. */
    async seen(now: number, keep: RetentionTimes, limit: number): Promise<PurgedSubjects> {
      const names = await link.run((redis) => redis.zrangebyscore(`${base}bare`, "-inf", now, "LIMIT", 0, limit));
      const found = await rowsOf(names);
      const seen = found.filter(({ row }) => row.registeredAt === null);
      const old = seen.filter(({ row }) => row.updatedAt < now - keep.ignored);
      const young = seen.filter(({ row }) => row.updatedAt >= now - keep.ignored);
      const waiting = new Set(seen.map(({ name }) => name));
      const settled = names.filter((name) => !waiting.has(name));
      const later = young.flatMap(({ name, row }) => [String(Math.min(now + latestLookMs, row.updatedAt + keep.ignored + 1)), name]);
      const messages = await forget(old, (tx) => {
        if (settled.length > 0) tx.call("ZREM", `${base}bare`, ...settled);
        // XX: the subject may have left the list meanwhile because of a new event.
        if (later.length > 0) tx.call("ZADD", `${base}bare`, "XX", ...later);
      });
      return { messages, more: names.length === limit };
    },
    async registered(now: number, keep: RetentionTimes, limit: number): Promise<PurgedSubjects> {
      if (walk === null) {
        if (!(await isWalkDue(now, keep))) return { messages: 0, more: false };
        walk = { since: now, kind: "m", after: 0 };
      }
      const { since, kind, after } = walk;
      const list = `${base}registered:${kind}`;
      const found = await link.run((redis) => redis.zrangebyscore(list, `(${after}`, "+inf", "WITHSCORES", "LIMIT", 0, limit));
      const names = found.filter((_, index) => index % 2 === 0);
      const old = (await rowsOf(names)).filter(({ row }) => row.updatedAt < now - keep.messages);
      const messages = await forget(old);
      if (names.length === limit) walk = { since, kind, after: Number(found.at(-1)) };
      else if (kind === "m") walk = { since, kind: "r", after: 0 };
      else {
        walk = null;
        await transact(async (tx) => {
          const progress = readRetentionRow(await tx.read(rowKey));
          tx.put(rowKey, JSON.stringify({ ...joinRetention(progress, {}), walkedAt: since }));
        });
      }
      return { messages, more: walk !== null };
    },
  };
}
