import type { AccountSettings, Settings } from "../config/schema.ts";
import type { Clock } from "../event/clock.ts";
import type { Secret } from "../event/secret.ts";
import { createServiceClient, type ServiceClient } from "../service-api/client.ts";
import { createLimiter, type LetGo, type Limiter, type LimiterHooks } from "../service-api/limits/limiter.ts";
import type { LimiterState } from "../service-api/limits/limiter-state.ts";

/** The accounts whose service can be asked: each with its client, and a limiter that keeps its caps. */
export interface ServiceAccounts {
  /** Null when the account has no base URL or key in the settings. Not to be kept: a reload may bring another. */
  client(account: string): ServiceClient | null;
  limiters(): ReadonlyMap<string, LimiterState>;
  /** What a limiter knows of the caps stays, as long as the account is at the same base URL. */
  reload(accounts: Settings["accounts"]): void;
  /** Ends what waits; resolves when what is on its way has ended, cut after `withinMs`. */
  close(withinMs: number): Promise<void>;
}

export interface ServiceAccountsParts {
  readonly clock: Clock;
  readonly random: () => number;
  /** Calls of the last minutes, also those of a process that is no more. */
  readonly recent: (account: string) => readonly LetGo[];
  readonly hooks: (account: string) => LimiterHooks;
}

/** An account that has all that asking takes. */
interface Asked extends AccountSettings {
  readonly baseUrl: string;
  readonly apiKey: Secret;
}

interface Entry {
  readonly settings: Asked;
  readonly limiter: Limiter;
  readonly client: ServiceClient;
}

export function createServiceAccounts(
  accounts: Settings["accounts"],
  { clock, random, recent, hooks }: ServiceAccountsParts,
): ServiceAccounts {
  let entries = new Map<string, Entry>();
  /** Clients that are being closed. */
  const closing = new Set<ServiceClient>();

  async function close(client: ServiceClient, withinMs?: number): Promise<void> {
    closing.add(client);
    await client.close(withinMs);
    closing.delete(client);
  }

  function entryFor(account: string, settings: Asked, before: Entry | undefined): Entry {
    const isSameService = before !== undefined && before.settings.baseUrl === settings.baseUrl;
    const isSameKey = isSameService && before.settings.apiKey.reveal() === settings.apiKey.reveal();
    const isSameAllowance = before?.settings.plan === settings.plan && before.settings.share === settings.share;
    const limiter = isSameService ? before.limiter : createLimiter({ ...settings, clock, recent: recent(account), hooks: hooks(account) });
    if (isSameService && !(isSameKey && isSameAllowance)) limiter.retune(settings);
    if (isSameKey) return { settings, limiter, client: before.client };
    return { settings, limiter, client: createServiceClient({ ...settings, admission: limiter, clock, random }) };
  }

  function reload(next: Settings["accounts"]): void {
    const before = entries;
    entries = new Map(
      Object.entries(next).flatMap(([account, settings]) =>
        isAsked(settings) ? [[account, entryFor(account, settings, before.get(account))]] : [],
      ),
    );
    for (const [account, { client }] of before) if (entries.get(account)?.client !== client) void close(client);
  }

  reload(accounts);
  return {
    client: (account) => entries.get(account)?.client ?? null,
    limiters: () => new Map([...entries].map(([account, { limiter }]) => [account, limiter.state()])),
    reload,
    async close(withinMs) {
      reload({});
      // Once more for each: a reload lets what is on its way take its time.
      await Promise.all([...closing].map((client) => close(client, withinMs)));
    },
  };
}

/** True for an account with all that asking takes. */
export function isAsked(settings: AccountSettings | undefined): settings is Asked {
  return settings?.baseUrl !== undefined && settings.apiKey !== undefined;
}
