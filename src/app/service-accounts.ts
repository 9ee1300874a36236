import { createHash } from "node:crypto";
import type { AccountSettings, Settings } from "../config/schema.ts";
import type { Clock } from "../model/clock.ts";
import type { Secret } from "../model/secret.ts";
import type { SharedCaps } from "../model/shared-caps.ts";
import { createServiceClient, type ServiceClient } from "../service/client.ts";
import { ServiceError } from "../service/errors.ts";
import type { QuotaReason } from "../service/limits/account.ts";
import { type Allowance, createLimiter, type LetGo, type Limiter, type LimiterHooks } from "../service/limits/limiter.ts";
import type { LimiterState } from "../service/limits/limiter-state.ts";
import { StoreUnavailable } from "../store/port.ts";

/** The accounts whose service can be asked: each with its client, and a limiter that keeps its caps. */
export interface ServiceAccounts {
  /** Null when the account has no base URL or key in the settings. Not to be kept: a reload may bring another. */
  client(account: string): ServiceClient | null;
  limiters(): ReadonlyMap<string, LimiterState>;
  /**
   * What a limiter knows of the caps stays, as long as the account is at the same base URL. Stops of quotas end, and
   * smaller caps that the service reported are forgotten.
   */
  reload(accounts: Settings["accounts"]): void;
  /**
   * Ends the stops of the account's quotas; resolves with those that there were. Null: the account cannot be asked.
   * Rejects with `StoreUnavailable` when processes that share the account may not know.
   */
  resume(account: string): Promise<readonly QuotaReason[] | null>;
  /** Ends what waits; resolves when what is on its way has ended, cut after `withinMs`. */
  close(withinMs: number): Promise<void>;
}

export interface ServiceAccountsParts {
  readonly clock: Clock;
  readonly random: () => number;
  /** Calls of the last minutes, also those of a process that is no more. */
  readonly recent: (account: string) => readonly LetGo[];
  /** What the processes of an account share, with that account at that base URL; not given: this process has it to itself. */
  readonly shared?: ((account: string, baseUrl: string) => SharedCaps) | undefined;
  /** Takes secrets out of what the service says; not given: the account's key only. */
  readonly redact?: ((text: string) => string) | undefined;
  readonly hooks: (account: string) => LimiterHooks;
  /** Whether a message that the provider rejected with this text is sent again; by the settings in force. */
  readonly isTemporary: (text: string) => boolean;
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
  { clock, random, recent, shared, redact, hooks, isTemporary }: ServiceAccountsParts,
): ServiceAccounts {
  let entries = new Map<string, Entry>();
  /** Entries whose clients are being closed. */
  const closing = new Set<Entry>();

  async function close(entry: Entry, withinMs?: number): Promise<void> {
    closing.add(entry);
    await entry.client.close(withinMs);
    closing.delete(entry);
    if (![...entries.values(), ...closing].some(({ limiter }) => limiter === entry.limiter)) entry.limiter.close();
  }

  function entryFor(account: string, settings: Asked, before: Entry | undefined): Entry {
    const isSameService = before !== undefined && before.settings.baseUrl === settings.baseUrl;
    const isSameKey = isSameService && before.settings.apiKey.reveal() === settings.apiKey.reveal();
    const isSameAllowance = before?.settings.plan === settings.plan && before.settings.share === settings.share;
    const allowance: Allowance = { plan: settings.plan, share: settings.share, keyId: keyIdOf(settings.apiKey) };
    const limiter = isSameService ? before.limiter : limiterFor(account, settings.baseUrl, allowance);
    if (isSameKey && isSameAllowance) limiter.resume();
    else if (isSameService) limiter.retune(allowance);
    if (isSameKey) return { settings, limiter, client: before.client };
    const client = createServiceClient({ ...settings, admission: limiter, clock, random, redact, retry: { isTemporary } });
    return { settings, limiter, client };
  }

  function limiterFor(account: string, baseUrl: string, allowance: Allowance): Limiter {
    const together = shared?.(account, baseUrl);
    if (together === undefined) return createLimiter({ ...allowance, clock, recent: recent(account), hooks: hooks(account) });
    // What is shared outlives the process: nothing else needs to know what it let go.
    const { letGo: _, ...others } = hooks(account);
    return createLimiter({ ...allowance, clock, shared: together, hooks: others });
  }

  function reload(next: Settings["accounts"]): void {
    const before = entries;
    entries = new Map(
      Object.entries(next).flatMap(([account, settings]) =>
        isAsked(settings) ? [[account, entryFor(account, settings, before.get(account))]] : [],
      ),
    );
    for (const [account, entry] of before) if (entries.get(account)?.client !== entry.client) void close(entry);
  }

  reload(accounts);
  return {
    client: (account) => entries.get(account)?.client ?? null,
    limiters: () => new Map([...entries].map(([account, { limiter }]) => [account, limiter.state()])),
    reload,
    async resume(account) {
      try {
        return (await entries.get(account)?.limiter.resumeByOrder()) ?? null;
      } catch (error) {
        if (!(error instanceof ServiceError)) throw error;
        throw new StoreUnavailable("whether the account's stops have ended is not known: the processes that share it cannot be reached");
      }
    },
    async close(withinMs) {
      reload({});
      // Once more for each: a reload lets what is on its way take its time.
      await Promise.all([...closing].map((entry) => close(entry, withinMs)));
    },
  };
}

/** Tells keys from one another; too short to be worth anything to somebody who reads it. */
function keyIdOf(key: Secret): string {
  return createHash("sha256").update(`wamid-relay ${key.reveal()}`).digest("hex").slice(0, 8);
}

/** True for an account with all that asking takes. */
export function isAsked(settings: AccountSettings | undefined): settings is Asked {
  return settings?.baseUrl !== undefined && settings.apiKey !== undefined;
}
