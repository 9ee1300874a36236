import type { Budgets } from "../model/budget.ts";
import type { Clock } from "../model/clock.ts";
import type { Secret } from "../model/secret.ts";
import { type TlsSettings, tlsKey } from "../net/tls.ts";
import { createServiceClient, type ServiceClient } from "./client.ts";
import { planCaps } from "./limits/caps.ts";
import {
  type Allowance,
  createLimiter,
  type DispatchedCall,
  type Limiter,
  type LimiterHooks,
  type LimiterState,
} from "./limits/limiter.ts";
import { type QuotaReason, type StopReason, stopReasons } from "./limits/stops.ts";
import type { Plan } from "./settings.ts";

/** Without base URL and key, the service is not called for it. */
interface AccountSettings {
  readonly baseUrl?: string | undefined;
  readonly apiKey?: Secret | undefined;
  readonly tls?: TlsSettings | undefined;
  readonly plan: Plan;
  readonly share: number;
}

interface CallableAccount extends AccountSettings {
  readonly baseUrl: string;
  readonly apiKey: Secret;
}

export function isCallable(settings: AccountSettings | undefined): settings is CallableAccount {
  return settings?.baseUrl !== undefined && settings.apiKey !== undefined;
}

/** A stop in force, as `/readyz` and doctor show it. */
export interface StopView {
  readonly account: string;
  readonly reason: StopReason;
  /** Null: unknown, or not a quota. */
  readonly resource: string | null;
  /** Unix ms. */
  readonly until: number;
}

type Accounts = Readonly<Record<string, AccountSettings>>;

interface ServiceAccountsParts {
  readonly clock: Clock;
  readonly random: () => number;
  /** Calls of at least the last minutes, including those of a process that ended. */
  readonly recent: (account: string) => readonly DispatchedCall[];
  /** Default: this process is alone. */
  readonly budgets?: ((account: string, baseUrl: string) => Budgets) | undefined;
  /** Removes secrets from the service's texts. Default: only the account's key. */
  readonly redact?: ((text: string) => string) | undefined;
  readonly hooks: (account: string) => LimiterHooks;
  readonly isTemporary: (text: string) => boolean;
}

interface Entry {
  readonly settings: CallableAccount;
  readonly limiter: Limiter;
  readonly client: ServiceClient;
}

export type ServiceAccounts = ReturnType<typeof createServiceAccounts>;

export function createServiceAccounts(
  accounts: Accounts,
  { clock, random, recent, budgets, redact, hooks, isTemporary }: ServiceAccountsParts,
) {
  let entries = new Map<string, Entry>();
  const closing = new Set<Entry>();

  async function close(entry: Entry, withinMs?: number): Promise<void> {
    closing.add(entry);
    await entry.client.close(withinMs);
    closing.delete(entry);
    if (![...entries.values(), ...closing].some(({ limiter }) => limiter === entry.limiter))
      entry.limiter.close();
  }

  function entryFor(account: string, settings: CallableAccount, before: Entry | undefined): Entry {
    const isSameService = before !== undefined && before.settings.baseUrl === settings.baseUrl;
    const keyId = settings.apiKey.fingerprint();
    const isSameKey = isSameService && before.settings.apiKey.fingerprint() === keyId;
    const allowance: Allowance = { caps: planCaps[settings.plan], share: settings.share, keyId };
    const limiter = isSameService
      ? before.limiter
      : limiterFor(account, settings.baseUrl, allowance);
    if (isSameService) limiter.retune(allowance);
    if (isSameKey && tlsKey(before.settings.tls) === tlsKey(settings.tls))
      return { settings, limiter, client: before.client };
    const client = createServiceClient({
      ...settings,
      admission: limiter,
      clock,
      random,
      redact,
      retry: { isTemporary },
    });
    return { settings, limiter, client };
  }

  function limiterFor(account: string, baseUrl: string, allowance: Allowance): Limiter {
    const shared = budgets?.(account, baseUrl);
    return createLimiter({
      ...allowance,
      clock,
      recent: recent(account),
      budgets: shared,
      hooks: hooks(account),
    });
  }

  function reload(next: Accounts): void {
    const before = entries;
    entries = new Map(
      Object.entries(next).flatMap(([account, settings]) =>
        isCallable(settings) ? [[account, entryFor(account, settings, before.get(account))]] : [],
      ),
    );
    for (const [account, entry] of before)
      if (entries.get(account)?.client !== entry.client) void close(entry);
  }

  /** Reads the state of every account: callers with one account in mind take `limiterOf`. */
  const limiters = (): ReadonlyMap<string, LimiterState> =>
    new Map([...entries].map(([account, { limiter }]) => [account, limiter.state()]));

  reload(accounts);
  return {
    /**
     * Null when the account has no base URL or key in the settings. Do not keep it: a reload may
     * replace it.
     */
    client: (account: string): ServiceClient | null => entries.get(account)?.client ?? null,
    /** Accounts with a base URL and key. */
    callable: (): readonly string[] => [...entries.keys()],
    limiters,
    limiterOf: (account: string): LimiterState | undefined => entries.get(account)?.limiter.state(),
    stops: (): readonly StopView[] =>
      [...limiters()].flatMap(([account, state]) => stopsOf(account, state)),
    /**
     * A limiter keeps what it knows of the caps as long as the account has the same base URL. Quota
     * stops end.
     */
    reload,
    /**
     * Ends the quota stops, and resolves with those that were in force. Rejects with a
     * `ServiceError` when processes that share the account may not know.
     */
    resume: async (account: string): Promise<readonly QuotaReason[]> =>
      entries.get(account)?.limiter.resumeByOrder() ?? [],
    /**
     * Ends waiting calls; resolves when calls in flight have ended. They are cut after `withinMs`.
     */
    async close(withinMs: number): Promise<void> {
      reload({});
      // Again with the limit: a reload lets calls in flight take their time.
      await Promise.all([...closing].map((entry) => close(entry, withinMs)));
    },
  };
}

function stopsOf(account: string, { stops, resources }: LimiterState): StopView[] {
  return stopReasons.flatMap((reason) => {
    const until = stops[reason];
    if (until === null) return [];
    return [{ account, reason, resource: resources[reason] ?? null, until }];
  });
}
