import type { Clock } from "../../model/clock.ts";
import { blockedAddress, limitReached, limitsOf, notInPlan, refused } from "../api/fault.ts";
import type { PlanLimits } from "../world/plans.ts";
import type { AccountRecord } from "../world/records.ts";
import type { World } from "../world/world.ts";
import { createBadKeys } from "./bad-keys.ts";
import { type BusiestMinute, createBusiestMinute } from "./busiest-minute.ts";
import { createFindKey } from "./keys.ts";
import { createMinuteWindow, type MinuteWindow } from "./minute-window.ts";
import type { Limits } from "./port.ts";
import { type Cap, capReached } from "./refusals.ts";
import { createUsageCounters } from "./usage.ts";

interface AccountCalls {
  readonly windows: Readonly<Record<Cap, MinuteWindow>>;
  readonly busiest: Readonly<Record<Cap, BusiestMinute>>;
  refused: number;
}

const quotas = { webhookDeliveries: "deliveries", automationSteps: "steps", automationRequests: "automationRequests" } as const;
const inSpanish = new Intl.NumberFormat("es-AR");

/**
 * `clock` is the sandbox's. `isUnlimited` lifts the per-minute caps and the monthly quotas and nothing else: calls are
 * still counted, keys must be valid, addresses are blocked, and a plan without the API stays without.
 */
export function createLimits({
  world,
  clock,
  isUnlimited,
}: {
  readonly world: Pick<World, "accounts" | "keys">;
  readonly clock: Pick<Clock, "now">;
  readonly isUnlimited: boolean;
}): Limits & {
  /** Forgets bad keys and blocked addresses. */
  forgetBlocks(): void;
} {
  const findKey = createFindKey(world);
  const badKeys = createBadKeys();
  const counters = createUsageCounters(world);
  const calls = new Map<string, AccountCalls>();

  function callsOf(account: string): AccountCalls {
    let found = calls.get(account);
    if (found === undefined) {
      found = {
        windows: { requests: createMinuteWindow(), messages: createMinuteWindow() },
        busiest: { requests: createBusiestMinute(), messages: createBusiestMinute() },
        refused: 0,
      };
      calls.set(account, found);
    }
    return found;
  }

  /** Throws when one more call of `caps` would be too many; counts nothing. */
  function checkRoom(account: AccountRecord, limits: PlanLimits, caps: readonly Cap[], now: number): void {
    const { windows } = callsOf(account.id);
    for (const cap of caps) {
      if (windows[cap].count(now) >= limits[cap]) throw capReached(cap, limits[cap], windows[cap].secondsLeft(now));
    }
    const used = counters.of(account, now).apiCalls;
    if (limits.apiCalls !== null && used >= limits.apiCalls) {
      throw limitReached(
        429,
        `Ya usaste las ${inSpanish.format(limits.apiCalls)} llamadas a la API de este mes. Se renuevan el día 1, o cambiando de plan.`,
        { plan: account.plan, resource: "apiCalls", limit: limits.apiCalls, used },
      );
    }
  }

  return {
    authenticate(authorization, address) {
      const now = clock.now();
      if (badKeys.isBlocked(address, now)) throw blocked();
      const key = findKey(/^Bearer +(\S+)$/.exec(authorization ?? "")?.[1] ?? "");
      const account = key && world.accounts.get(key.account);
      if (key !== undefined && account !== undefined) return { account, key };
      if (badKeys.add(address, now)) throw blocked();
      throw refused(401, authorization === undefined ? "Falta la clave de API." : "La clave de API no es válida o fue revocada.");
    },
    admit(account, call) {
      const now = clock.now();
      const limits = limitsOf(account.plan);
      const found = callsOf(account.id);
      // The message cap first: a call that exceeds both is refused for messages. A refused call counts nowhere.
      const caps: readonly Cap[] = call === "message" ? ["messages", "requests"] : ["requests"];
      try {
        if (!limits.api) throw notInPlan("Tu plan no incluye la API. Pasate a un plan que la incluya.", account.plan, "api");
        if (!isUnlimited) checkRoom(account, limits, caps, now);
      } catch (error) {
        found.refused += 1;
        throw error;
      }
      for (const cap of caps) {
        found.windows[cap].add(now);
        found.busiest[cap].add(now);
      }
      counters.add(account, "apiCalls", now);
    },
    spend(account, what) {
      const now = clock.now();
      const plan = limitsOf(account.plan);
      // Webhooks come with the API, so a plan without it has no deliveries to lift the quota of.
      if (what === "webhookDeliveries" && !plan.api) return false;
      const limit = plan[quotas[what]];
      if (!isUnlimited && limit !== null && counters.of(account, now)[what] >= limit) return false;
      counters.add(account, what, now);
      return true;
    },
    usage: (account) => counters.of(account, clock.now()),
    shownUsage: (account) => counters.shown(account, clock.now()),
    perMinute(account) {
      const now = clock.now();
      const { busiest, refused: refusals } = callsOf(account);
      const of = (cap: Cap) => ({ last: busiest[cap].last(now), peak: busiest[cap].peak() });
      return { requests: of("requests"), messages: of("messages"), refused: refusals };
    },
    forgetBlocks: () => badKeys.forget(),
  };
}

function blocked() {
  return blockedAddress("Hubo demasiados pedidos con claves inválidas desde tu dirección IP. Esperá un minuto y volvé a intentar.");
}
