import { randomUUID } from "node:crypto";
import type { CoveredEvents, Covering, HydrationPass, ReadMessage, TrackedMessage, TrackedQuery } from "../../model/hydration.ts";
import type { EventId } from "../../model/ids.ts";
import { lastRead, passesKeptMs } from "../service-port.ts";
import type { RedisLink } from "./client.ts";
import { readEventRow } from "./event-rows.ts";
import { type Keys, messageName, readSubjectName } from "./keys.ts";
import { type PassRow, readPassRow, readPollRecord, readSubjectRow, rowJson, writePassRow, writeSubjectRow } from "./rows.ts";
import { readScript } from "./script.ts";
import type { Transact, Transaction } from "./transact.ts";

interface Parts {
  readonly keys: Keys;
  readonly link: RedisLink;
  readonly transact: Transact;
  readonly version: () => string;
}

const beginScript = readScript("begin-pass");

/**
 * Hydration passes and the messages they read. An account has one at a time; the next process continues a pass
 * whose process died. The lease in app/hydrating.ts only saves calls.
 */
export function createHydrationPasses({ keys, link, transact, version }: Parts) {
  const { base } = keys;

  /** Continues the account's pass, or begins one; null when nothing waits. */
  async function beginPass(account: string, now: number): Promise<HydrationPass | null> {
    for (;;) {
      const list = [base, account, String(now), version(), randomUUID()];
      const found = (await link.run((redis) => beginScript.run(redis, `${base}pass:${account}`, list))) as string[];
      const [row, first, events, oldest, newest] = found;
      if (row === undefined || first === undefined) return null;
      const event = await link.run((redis) => redis.get(keys.event(first)));
      if (event !== null) {
        const { source, id } = readEventRow(rowJson(event));
        const covered = { events: Number(events), oldest: Number(oldest), newest: Number(newest) };
        return { ...readPassRow(row), account, source, because: id as EventId, covered };
      }
      // The purge has deleted the event.
      await link.run((redis) => redis.zrem(`${base}hc:${account}`, first));
    }
  }

  return {
    beginPass,
    async covered({ account, seq }: Covering): Promise<CoveredEvents | null> {
      const list = `${base}hc:${account}`;
      const [row, events, [, oldest], [, newest]] = await Promise.all([
        link.run((redis) => redis.get(`${base}pass:${account}`)),
        link.run((redis) => redis.zcard(list)),
        link.run((redis) => redis.zrange(list, "0", "0", "WITHSCORES")),
        link.run((redis) => redis.zrange(list, "-1", "-1", "WITHSCORES")),
      ]);
      if (row === null || readPassRow(row).seq !== seq || oldest === undefined || newest === undefined) return null;
      return { events, oldest: Number(oldest), newest: Number(newest) };
    },
    async noteReads(pass: Covering, polled: number, read: readonly ReadMessage[]): Promise<void> {
      const { account } = pass;
      await Promise.all([
        transact(async (tx) => {
          const open = await findOpenPass(tx, keys, pass);
          if (open !== null) tx.put(keys.of(`pass:${account}`), writePassRow({ ...open, polled: open.polled + polled }));
        }),
        ...read.map(noteRead),
      ]);
    },
    async endPass(pass: Covering, now: number): Promise<void> {
      const { account } = pass;
      await transact(async (tx) => {
        const open = await findOpenPass(tx, keys, pass);
        if (open === null) return;
        tx.remove(keys.of(`pass:${account}`));
        if (open.polled > 0) tx.call("ZADD", `${base}passes:${account}`, String(now), `${open.seq}:${open.polled}`);
        tx.call("ZREMRANGEBYSCORE", `${base}passes:${account}`, "-inf", `(${now - passesKeptMs}`);
      });
    },
    /** Calls that passes of the account made since `since`. */
    async callsSince(account: string, since: number): Promise<number> {
      const [row, ended] = await Promise.all([
        link.run((redis) => redis.get(`${base}pass:${account}`)),
        link.run((redis) => redis.zrangebyscore(`${base}passes:${account}`, `(${since}`, "+inf")),
      ]);
      return ended.reduce(
        (sum, member) => sum + Number(member.slice(member.lastIndexOf(":") + 1)),
        row === null ? 0 : readPassRow(row).polled,
      );
    },
  };

  function noteRead({ message, at }: ReadMessage): Promise<void> {
    const name = String(message);
    return transact(async (tx) => {
      const json = await tx.read(keys.of(name));
      if (json !== null) tx.put(keys.of(name), writeSubjectRow({ ...readSubjectRow(json), readAt: at }));
    });
  }
}

/**
 * The pass's row, null when it is no longer the account's. A step of a pass that another process has ended does nothing:
 * the events that wait now belong to a later pass.
 */
export async function findOpenPass(tx: Transaction, keys: Keys, pass: { account: string; seq: number | string }): Promise<PassRow | null> {
  const json = await tx.read(keys.of(`pass:${pass.account}`));
  if (json === null) return null;
  const [seq, through, startedAt, polled] = JSON.parse(json);
  return seq === pass.seq ? { seq, through, startedAt, polled } : null;
}

const trackedScript = readScript("tracked-messages");

/** Messages per step; each step blocks Redis for half a millisecond. */
const messagesAtOnce = 100;

type Found = readonly [wamid: string, registeredAt: string, row: string, record: string, isMissing: number];

/** Registered messages of an account, newest registration first, in pages: the messages a pass reads. */
export function createTrackedMessages({ base }: Keys, link: RedisLink) {
  /** One step of `trackedMessages`. */
  async function some(account: string, { withId, before, from, limit }: TrackedQuery): Promise<TrackedMessage[]> {
    const last = typeof before.message === "string" ? readSubjectName(before.message).key : "";
    const list = [base, account, withId ? "ti" : "tn", String(before.registeredAt), last, String(from), String(limit)];
    const found = (await link.run((redis) => trackedScript.run(redis, `${base}ti:${account}`, list))) as Found[];
    return found.map(([wamid, registeredAt, text, record, isMissing]) => {
      const row = readSubjectRow(rowJson(text));
      const answeredAt = record === "" ? null : readPollRecord(record).polledAt;
      return {
        message: messageName(account, wamid),
        messageId: row.serviceId,
        status: row.status,
        registeredAt: Number(registeredAt),
        sentAt: row.sentAt,
        changedAt: row.updatedAt,
        readAt: lastRead(row.readAt, answeredAt),
        isMissing: isMissing === 1,
      };
    });
  }

  return async function trackedMessages(account: string, query: TrackedQuery): Promise<TrackedMessage[]> {
    const views: TrackedMessage[] = [];
    while (views.length < query.limit) {
      const limit = Math.min(messagesAtOnce, query.limit - views.length);
      const found = await some(account, { ...query, before: views.at(-1) ?? query.before, limit });
      views.push(...found);
      if (found.length < limit) break;
    }
    return views;
  };
}
