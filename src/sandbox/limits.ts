import { ApiFault, planRefused, refused } from "./api/fault.ts";
import {
  type AccountRecord,
  accountOf,
  type Core,
  hasApi,
  plans,
  type Quota,
  type Usage,
} from "./world.ts";

type Cap = "requests" | "messages";

const createCap = () => ({ window: createMinuteWindow(), minute: createBusiestMinute() });
const createAccountCalls = () => ({ requests: createCap(), messages: createCap(), refused: 0 });

const shownEveryMs = 30_000;

/** Of messaging-service-api.md, "Authentication" and "Limits". All throw ApiFault. */
export type Limits = ReturnType<typeof createLimits>;

/**
 * `isUnlimited` lifts caps and quotas only: keys must be valid, and a plan without the API stays
 * without.
 */
export function createLimits({ world, clock }: Pick<Core, "world" | "clock">, isUnlimited = false) {
  const badKeys = createBadKeys();
  const calls = new Map<string, ReturnType<typeof createAccountCalls>>();
  const snapshots = new Map<string, { readonly halfMinute: number; readonly usage: Usage }>();
  const halfMinute = () => Math.floor(clock.now() / shownEveryMs);

  const callsOf = (id: string) => {
    const found = calls.get(id) ?? createAccountCalls();
    calls.set(id, found);
    return found;
  };

  function usage(account: AccountRecord): Usage {
    const month = quotaMonth(clock.now());
    if (account.usage.month !== month)
      world.accounts.update(account, { usage: { ...noUsage, month } });
    return account.usage;
  }

  function count(account: AccountRecord, what: Quota): void {
    const used = usage(account);
    if (snapshots.get(account.id)?.halfMinute !== halfMinute())
      snapshots.set(account.id, { halfMinute: halfMinute(), usage: { ...used } });
    used[what] += 1;
    world.accounts.put(account);
  }

  function checkRoom(account: AccountRecord, caps: readonly Cap[], now: number): void {
    const { id, plan } = account;
    for (const cap of caps) {
      const { window } = callsOf(id)[cap];
      const limit = plans[plan][cap];
      if (window.count(now) >= limit) throw capReached(cap, limit, window.secondsLeft(now));
    }
    const { apiCalls: used } = usage(account);
    const { apiCalls: limit } = plans[plan];
    if (used < limit) return;
    const text = `Ya usaste las ${limit.toLocaleString("es-AR")} llamadas a la API de este mes. Se renuevan el día 1, o cambiando de plan.`;
    throw planRefused(429, text, { plan, resource: "apiCalls", limit, used });
  }

  return {
    authenticate(authorization: string | undefined, address: string): AccountRecord {
      const now = clock.now();
      if (badKeys.isBlocked(address, now)) throw blocked();
      const given = /^Bearer +(\S+)$/.exec(authorization ?? "")?.[1] ?? "";
      const key = world.keys.findAnywhere(given);
      if (key?.revokedAt === null) return accountOf(world, key.account);
      if (badKeys.add(address, now)) throw blocked();
      throw refused(
        401,
        authorization === undefined
          ? "Falta la clave de API."
          : "La clave de API no es válida o fue revocada.",
      );
    },
    admit(account: AccountRecord, call: "message" | "other"): void {
      const now = clock.now();
      const { id, plan } = account;
      const found = callsOf(id);
      // A call that exceeds both is refused for messages. A refused call counts nowhere.
      const caps: readonly Cap[] = call === "message" ? ["messages", "requests"] : ["requests"];
      try {
        const text = "Tu plan no incluye la API. Pasate a un plan que la incluya.";
        if (!hasApi(account))
          throw planRefused(402, text, { reason: "feature", plan, resource: "api" });
        if (!isUnlimited) checkRoom(account, caps, now);
      } catch (error) {
        found.refused += 1;
        throw error;
      }
      for (const cap of caps) {
        found[cap].window.add(now);
        found[cap].minute.add(now);
      }
      count(account, "apiCalls");
    },
    admitToolCall({ plan }: AccountRecord, app: string): boolean {
      const now = clock.now();
      const { window } = callsOf(app).requests;
      if (!isUnlimited && window.count(now) >= plans[plan].toolCalls) return false;
      window.add(now);
      return true;
    },
    spend(account: AccountRecord, what: Quota): boolean {
      // A plan without the API has no deliveries to lift the quota of.
      if (what === "webhookDeliveries" && !hasApi(account)) return false;
      if (!isUnlimited && usage(account)[what] >= plans[account.plan][what]) return false;
      count(account, what);
      return true;
    },
    usage,
    shownUsage(account: AccountRecord): Usage {
      const used = usage(account);
      const snapshot = snapshots.get(account.id);
      return snapshot?.halfMinute === halfMinute() ? snapshot.usage : used;
    },
    /** Requests in the last and the busiest sliding 60 s. `refused`: not let in, and in neither. */
    perMinute(account: string) {
      const now = clock.now();
      const { requests, messages, refused } = callsOf(account);
      const of = ({ minute }: typeof requests) => ({ last: minute.last(now), peak: minute.peak() });
      return { requests: of(requests), messages: of(messages), refused };
    },
    forgetBlocks: badKeys.forget,
  };
}

export const noUsage: Usage = {
  month: "",
  apiCalls: 0,
  webhookDeliveries: 0,
  automationSteps: 0,
  automationRequests: 0,
};

function blocked(): ApiFault {
  return new ApiFault(429, {
    error:
      "Hubo demasiados pedidos con claves inválidas desde tu dirección IP. Esperá un minuto y volvé a intentar.",
  });
}

export function capReached(cap: Cap, limit: number, seconds: number): ApiFault {
  const what = cap === "messages" ? "mensajes por minuto" : "pedidos por minuto";
  const error = `Superaste el límite de ${limit} ${what} de tu cuenta. Esperá ${seconds} ${seconds === 1 ? "segundo" : "segundos"} y volvé a intentar.`;
  return new ApiFault(
    429,
    { error },
    { "retry-after": String(seconds), "x-ratelimit-limit": String(limit) },
  );
}

/** Argentina has kept UTC-3 all year since 2009. */
const behindUtcMs = 3 * 3_600_000;
const dayMs = 24 * 3_600_000;
let last = { day: Number.NaN, month: "" };

/** Such as `2026-11`: it begins on day 1 at 00:00 in Argentina ("Limits"). */
function quotaMonth(now: number): string {
  const there = now - behindUtcMs;
  const day = Math.floor(there / dayMs);
  // Cached: writing a date out cost 2 % of a busy sandbox.
  if (day !== last.day) last = { day, month: new Date(there).toISOString().slice(0, 7) };
  return last.month;
}

const minuteMs = 60_000;

function createMinuteWindow() {
  let openedAt = Number.NEGATIVE_INFINITY;
  let counted = 0;
  // The clock may be set back.
  const isOpen = (now: number) => now >= openedAt && now < openedAt + minuteMs;
  return {
    count: (now: number) => (isOpen(now) ? counted : 0),
    add(now: number): void {
      if (!isOpen(now)) {
        openedAt = now;
        counted = 0;
      }
      counted += 1;
    },
    secondsLeft: (now: number) =>
      isOpen(now) ? Math.max(1, Math.ceil((openedAt + minuteMs - now) / 1_000)) : 1,
  };
}

/** What arrived in the sliding minute (now − 60 s, now]. */
export function createBusiestMinute() {
  let times: number[] = [];
  let first = 0;
  let newest = Number.NEGATIVE_INFINITY;
  let peak = 0;
  /** Times must not fall, or the oldest would not be first. */
  const forward = (now: number): number => {
    newest = Math.max(newest, now);
    while (first < times.length && (times[first] as number) <= newest - minuteMs) first += 1;
    if (first > times.length / 2) {
      times = times.slice(first);
      first = 0;
    }
    return newest;
  };
  return {
    add(now: number): void {
      const at = forward(now);
      times.push(at);
      peak = Math.max(peak, times.length - first);
    },
    last(now: number): number {
      forward(now);
      return times.length - first;
    },
    peak: () => peak,
  };
}

const mostBadKeys = 20;

function createBadKeys() {
  const addresses = new Map<string, { times: number[]; blockedUntil: number }>();
  return {
    isBlocked: (address: string, now: number) => (addresses.get(address)?.blockedUntil ?? 0) > now,
    add(address: string, now: number): boolean {
      const times = [...(addresses.get(address)?.times ?? []), now].filter(
        (at) => at > now - minuteMs,
      );
      const isBlocked = times.length > mostBadKeys;
      addresses.set(
        address,
        isBlocked ? { times: [], blockedUntil: now + minuteMs } : { times, blockedUntil: 0 },
      );
      return isBlocked;
    },
    forget: () => addresses.clear(),
  };
}
