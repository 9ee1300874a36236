import { randomBytes } from "node:crypto";
import {
  beginKey,
  endKey,
  type KeyState,
  type SendClaim,
  type SendEnd,
  type SendKey,
  type StoredSend,
  sendKinds,
} from "../../model/send.ts";
import type { DueDelivery } from "../rules.ts";
import type { RedisLink } from "./client.ts";
import type { Keys } from "./keys.ts";
import type { RegisterSent } from "./register.ts";
import { rowJson } from "./rows.ts";
import type { Transact } from "./transact.ts";

interface Parts {
  readonly keys: Keys;
  readonly link: RedisLink;
  readonly transact: Transact;
  /** For steps that only delete. */
  readonly transactClear: Transact;
  readonly registerSent: RegisterSent;
}

interface SendRow {
  readonly state: KeyState;
  readonly fingerprint: string;
  readonly tries: number;
  readonly about: string;
  /** The open store that made the latest call. */
  readonly caller: string;
  readonly startedAt: number;
  readonly answer: Readonly<Record<string, unknown>> | null;
}

/**
 * How long a call without a result counts as in flight, by the clock of Redis. The service has ten seconds to answer, and
 * the result is stored within seconds.
 */
const callingMs = 60_000;

/** Keys deleted per step. */
const mostAtOnce = 100;

/**
 * Idempotency keys of sends. The key of a call in flight names its caller, and `caller:<id>` exists until `callingMs` after
 * the caller's last call began, or until it closes. Without its caller a call has an unknown outcome; a result that still
 * arrives counts, unless another process has called since.
 */
export function createSends({ keys, link, transact, transactClear, registerSent }: Parts) {
  const caller = randomBytes(8).toString("hex");
  const callerKey = (id: string): string => keys.of(`caller:${id}`);
  const rowKey = ({ account, kind, key }: SendKey): string => keys.of(`s:${sendKinds.indexOf(kind)}:${account}:${key}`);
  const old = keys.of("sends");

  const exists = async (id: string): Promise<boolean> => id === caller || (await link.run((redis) => redis.exists(callerKey(id)))) === 1;

  async function viewOf(json: string | null): Promise<StoredSend | null> {
    if (json === null) return null;
    const { caller: id, tries: attempts, ...row } = JSON.parse(json) as SendRow;
    const state = row.state === "calling" && !(await exists(id)) ? "unknown" : row.state;
    return { ...row, state, attempts };
  }

  return {
    async find(key: SendKey): Promise<StoredSend | null> {
      const found = await link.run((redis) => redis.get(rowKey(key)));
      return viewOf(found === null ? null : rowJson(found));
    },
    /** Null when the key was reserved for this call; else the stored send. */
    begin: (key: SendKey, { fingerprint, resend, about, at }: SendClaim): Promise<StoredSend | null> =>
      transact(async (tx) => {
        const held = await viewOf(await tx.read(rowKey(key)));
        const begun = beginKey(held, { fingerprint, resend });
        if (begun === null) return held;
        const { state, attempts: tries } = begun;
        const row: SendRow = { state, fingerprint, tries, about, caller, startedAt: at, answer: held?.answer ?? null };
        tx.put(rowKey(key), JSON.stringify(row));
        tx.call("SET", callerKey(caller), "1", "PX", String(callingMs));
        // References of runs never expire.
        if (key.kind === "message") tx.call("ZADD", old, String(at), `${key.account}:${key.key}`);
        return null;
      }),
    /** Settles a call and registers what was sent. Settling twice changes nothing. */
    settle: (key: SendKey, ended: SendEnd): Promise<readonly DueDelivery[]> =>
      transact(async (tx) => {
        const json = await tx.read(rowKey(key));
        const row = json === null ? null : (JSON.parse(json) as SendRow);
        // If another process has taken over the key, its call decides.
        if (row?.state === "calling" && row.caller === caller) {
          const after = endKey({ ...row, attempts: row.tries }, ended.end);
          if (after === null) {
            tx.remove(rowKey(key));
            if (key.kind === "message") tx.call("ZREM", old, `${key.account}:${key.key}`);
          } else {
            const answer = ended.end === "done" ? ended.answer : row.answer;
            tx.put(rowKey(key), JSON.stringify({ ...row, state: after.state, tries: after.attempts, answer }));
          }
        }
        return ended.end === "done" ? registerSent(tx, key.account, ended.sent, ended.at) : [];
      }),
    /** Deletes keys of messages used before `before`, except of calls in flight; returns their number. */
    async forget(before: number, limit: number): Promise<number> {
      const most = Math.min(limit, mostAtOnce);
      const found = await link.run((redis) => redis.zrangebyscore(old, "-inf", `(${before}`, "LIMIT", 0, most));
      if (found.length === 0) return 0;
      return transactClear(async (tx) => {
        const forgotten = await Promise.all(
          found.map(async (member): Promise<number> => {
            const key = keys.of(`s:${sendKinds.indexOf("message")}:${member}`);
            const held = await viewOf(await tx.read(key));
            if (held !== null && (held.state === "calling" || held.startedAt >= before)) return 0;
            tx.remove(key);
            tx.call("ZREM", old, member);
            return 1;
          }),
        );
        return forgotten.reduce((sum, one) => sum + one, 0);
      });
    },
    /** Unfinished calls of this store have an unknown outcome from now on; if Redis is unavailable, once the caller's key expires. */
    async close(): Promise<void> {
      await link.run((redis) => redis.del(callerKey(caller))).catch(() => {});
    },
  };
}
