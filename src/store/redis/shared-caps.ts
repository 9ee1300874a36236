import { createHash } from "node:crypto";
import type { RedisLink } from "./client.ts";
import { keysOf } from "./keys.ts";
import { readScript } from "./script.ts";

/** How a call ended. `lost`: nobody knows whether and when the service counted it; `not-sent`: it surely did not. */
type SlotEnd = "answered" | "lost" | "not-sent";

/** One step of a process that shares an account's caps; kinds are indexes from 0. See `lua/caps.lua`. */
export interface CapsAsk {
  readonly holder: string;
  readonly born: string;
  readonly limits: { readonly requests: number; readonly messages: number; readonly asks: number; readonly polls: number };
  readonly atOnce: { readonly all: number; readonly others: number };
  readonly graceMs: number;
  readonly wants: readonly number[];
  readonly room: { readonly all: number; readonly others: number };
  readonly firstId: number;
  readonly ended: readonly { readonly id: string; readonly kind: number | null; readonly how: SlotEnd; readonly ageMs: number }[];
  readonly renewed: readonly { readonly id: string; readonly kind: number }[];
  readonly version: number;
  readonly next: { readonly state: string; readonly newest: number } | null;
}

export interface CapsAnswer {
  readonly born: string;
  readonly now: number;
  readonly granted: readonly { readonly id: string; readonly kind: number; readonly number: number }[];
  readonly waitMs: readonly number[];
  readonly used: { readonly requests: number; readonly messages: number };
  readonly newest: number;
  readonly version: number;
  readonly state: string | null;
  readonly isStored: boolean;
}

export interface RedisCaps {
  /** Rejects as the link does: whether it happened is not known then. */
  step(ask: CapsAsk): Promise<CapsAnswer>;
  /** What was learned last, and the shared clock of then beside the time; null: nothing. Writes nothing. */
  read(): Promise<{ readonly state: string; readonly now: number; readonly wall: number } | null>;
}

const script = readScript("caps");

/**
 * The caps of an account, shared over Redis by all that give the same `prefix`, `account` and `baseUrl`: another base URL is
 * another account at the service. `now` is for tests, and the same for all processes; not given, it is Redis's own clock,
 * so that those of the hosts need not agree.
 */
export function createRedisCaps(link: RedisLink, prefix: string, account: string, baseUrl: string, now?: () => number): RedisCaps {
  const place = createHash("sha256").update(baseUrl).digest("hex").slice(0, 8);
  const key = keysOf(prefix).of(`caps:${account}:${place}`);
  return {
    async step({ wants, ended, renewed, next, ...ask }) {
      // An absent field, because Lua has no null; kinds from 1, as lists count there.
      const request = {
        ...ask,
        wants,
        ended: ended.map(({ kind, ...one }) => ({ ...one, ...(kind === null ? {} : { kind: kind + 1 }) })),
        renewed: renewed.map(({ id, kind }) => ({ id, kind: kind + 1 })),
        ...(next === null ? {} : { next }),
      };
      const text = await link.run((redis) => script.run(redis, key, [JSON.stringify(request), now === undefined ? "" : String(now())]));
      const { granted, ...answer } = JSON.parse(text as string) as CapsAnswer;
      // An empty list of Lua is written as an empty object.
      return { ...answer, granted: (Array.isArray(granted) ? granted : []).map((slot) => ({ ...slot, kind: slot.kind - 1 })) };
    },
    async read() {
      const [state, steady, wall] = await link.run((redis) => redis.hmget(key, "state", "now", "wall"));
      return state == null ? null : { state, now: Number(steady), wall: Number(wall) };
    },
  };
}
