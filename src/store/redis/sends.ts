import { randomBytes } from "node:crypto";
import { beginKey, endKey, type KeyState, type SendKey, sendKinds } from "../../event/send-key.ts";
import type { DueDelivery } from "../rules.ts";
import type { SendClaim, SendEnd, StoredSend } from "../service-port.ts";
import type { RedisLink } from "./client.ts";
import type { Keys } from "./keys.ts";
import type { RegisterSent } from "./register.ts";
import { rowJson } from "./rows.ts";
import type { Transact } from "./transact.ts";

interface Parts {
  readonly keys: Keys;
  readonly link: RedisLink;
  readonly transact: Transact;
  /** For what only takes away. */
  readonly transactClear: Transact;
  readonly registerSent: RegisterSent;
}

interface SendRow {
  readonly state: KeyState;
  readonly fingerprint: string;
  readonly tries: number;
  readonly about: string;
  /** The opening of a store that made the latest call. */
  readonly caller: string;
  readonly startedAt: number;
  readonly answer: Readonly<Record<string, unknown>> | null;
}

/**
 * How long a call counts as under way when nobody says how it ended: the service is given ten seconds to answer, and
 * what comes of it is stored within seconds. By the clock of Redis.
 */
const callingMs = 60_000;

/** Keys forgotten in one step. */
const mostAtOnce = 100;

/**
 * Keys of what is sent through the relay. Any process may hold one: the key of a call under way names its caller, and
 * `caller:<id>` stands in Redis until `callingMs` after that caller's last call began, or until it has closed. A call
 * whose caller is gone is of unknown outcome; should it live after all, what it says in the end counts, unless another
 * has called since.
 */
export function createSends({ keys, link, transact, transactClear, registerSent }: Parts) {
  const caller = randomBytes(8).toString("hex");
  const callerKey = (id: string): string => keys.of(`caller:${id}`);
  const rowKey = ({ account, kind, key }: SendKey): string => keys.of(`s:${sendKinds.indexOf(kind)}:${account}:${key}`);
  const old = keys.of("sends");

  const exists = async (id: string): Promise<boolean> => id === caller || (await link.run((redis) => redis.exists(callerKey(id)))) === 1;

  async function viewOf(json: string | null): Promise<StoredSend | null> {
    if (json === null) return null;
    const { caller: id, ...row } = JSON.parse(json) as SendRow;
    return row.state === "calling" && !(await exists(id)) ? { ...row, state: "unknown" } : row;
  }

  return {
    async find(key: SendKey): Promise<StoredSend | null> {
      const found = await link.run((redis) => redis.get(rowKey(key)));
      return viewOf(found === null ? null : rowJson(found));
    },
    /** Null when the key is taken for a call; else what holds it. */
    begin: (key: SendKey, { fingerprint, resend, about, at }: SendClaim): Promise<StoredSend | null> =>
      transact(async (tx) => {
        const held = await viewOf(await tx.read(rowKey(key)));
        const begun = beginKey(held, { fingerprint, resend });
        if (begun === null) return held;
        const row: SendRow = { ...begun, about, caller, startedAt: at, answer: held?.answer ?? null };
        tx.put(rowKey(key), JSON.stringify(row));
        tx.call("SET", callerKey(caller), "1", "PX", String(callingMs));
        // References of runs are kept for ever.
        if (key.kind === "message") tx.call("ZADD", old, String(at), `${key.account}:${key.key}`);
        return null;
      }),
    /** Ends a call; what was done is registered. Being told again of a call that has ended changes nothing. */
    settle: (key: SendKey, ended: SendEnd): Promise<readonly DueDelivery[]> =>
      transact(async (tx) => {
        const json = await tx.read(rowKey(key));
        const row = json === null ? null : (JSON.parse(json) as SendRow);
        // Somebody else who took it for dead and calls by now says what became of the key.
        if (row?.state === "calling" && row.caller === caller) {
          const after = endKey(row, ended.end);
          if (after === null) {
            tx.remove(rowKey(key));
            if (key.kind === "message") tx.call("ZREM", old, `${key.account}:${key.key}`);
          } else {
            const answer = ended.end === "done" ? ended.answer : row.answer;
            tx.put(rowKey(key), JSON.stringify({ ...row, ...after, answer }));
          }
        }
        return ended.end === "done" ? registerSent(tx, key.account, ended.sent, ended.at) : [];
      }),
    /** Forgets keys of messages that were used before `before`, but none of a call under way; gives how many. */
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
    /** Calls of this store that have not ended are of unknown outcome from now on; with Redis away, once the caller's key has run out. */
    async close(): Promise<void> {
      await link.run((redis) => redis.del(callerKey(caller))).catch(() => {});
    },
  };
}
