import type { Clock } from "../../model/clock.ts";
import type { Random } from "../ids.ts";
import { digitsOf } from "../meta/updates.ts";
import type {
  AccountRecord,
  AppRecord,
  AutomationRecord,
  CampaignRecord,
  ContactRecord,
  DeliveryRecord,
  EventRecord,
  KeyRecord,
  MessageRecord,
  RecipientsRecord,
  RunRecord,
  TemplateRecord,
  WebhookRecord,
} from "./records.ts";

const mostEvents = 200_000;
/** Of about 1 KB each (`bench/sandbox.ts`). */
export const usualMessages = 500_000;

export type World = ReturnType<typeof createWorld>;

export function createWorld(journal: Journal, { keepMessages = usualMessages }: { readonly keepMessages?: number } = {}) {
  return {
    accounts: createTable<AccountRecord>("account", journal),
    keys: createTable<KeyRecord>("key", journal, { keyOf: ({ key }) => key }),
    webhooks: createTable<WebhookRecord>("webhook", journal),
    apps: createTable<AppRecord>("app", journal, { keyOf: ({ token }) => token }),
    contacts: createTable<ContactRecord>("contact", journal, { keyOf: ({ phone }) => phone }),
    templates: createTable<TemplateRecord>("template", journal),
    messages: createTable<MessageRecord>("message", journal, {
      keyOf: ({ wamid }) => wamid,
      most: keepMessages,
      isOver: ({ future }) => future.length === 0,
    }),
    campaigns: createTable<CampaignRecord>("campaign", journal),
    recipients: createTable<RecipientsRecord>("recipients", journal),
    automations: createTable<AutomationRecord>("automation", journal, { keyOf: ({ hookId }) => hookId }),
    runs: createTable<RunRecord>("run", journal),
    events: createTable<EventRecord>("event", journal, { most: mostEvents }),
    deliveries: createTable<DeliveryRecord>("delivery", journal, { most: mostEvents }),
  };
}

/** What every part stands on. */
export interface Core {
  readonly world: World;
  readonly clock: Clock;
  /** The machine's: receivers live in its time. */
  readonly baseClock: Clock;
  readonly ids: () => string;
  readonly random: Random;
  readonly speed: number;
}

export const mainAccount = "main";

export function wabaIdOf(account: string): string {
  return account === mainAccount ? "102290129340398" : digitsOf(`waba/${account}`, 15);
}

export interface Journal {
  changed(kind: string, id: string, record: object | null): void;
}

export interface Stored {
  readonly id: string;
  readonly account: string;
}

export type Table<T extends Stored> = ReturnType<typeof createTable<T>>;

/**
 * In order of ids. `keyOf` gives the second key, unique within an account. Beyond `most` the oldest that are over are forgotten, in
 * batches, as shifting a long list moves all of it.
 */
export function createTable<T extends Stored>(
  kind: string,
  journal: Journal,
  {
    keyOf,
    most = Number.POSITIVE_INFINITY,
    isOver = () => true,
  }: { keyOf?: (record: T) => string; most?: number; isOver?: (record: T) => boolean } = {},
) {
  const byId = new Map<string, T>();
  const byKey = new Map<string, T>();
  const byAccount = new Map<string, T[]>();
  const drop = (record: T): void => {
    byId.delete(record.id);
    if (keyOf !== undefined) byKey.delete(`${record.account}\0${keyOf(record)}`);
    journal.changed(kind, record.id, null);
  };
  const batch = most === Number.POSITIVE_INFINITY ? 0 : most >> 6;
  let forgetAt = most + batch;
  const forgetOldest = (): void => {
    const accounts = new Set<string>();
    for (const record of byId.values()) {
      if (byId.size <= most) break;
      if (!isOver(record)) continue;
      drop(record);
      accounts.add(record.account);
    }
    for (const account of accounts) {
      const left = byAccount.get(account)?.filter(({ id }) => byId.has(id)) ?? [];
      byAccount.set(account, left);
    }
    // All that is not over was looked at: not again for each one more.
    forgetAt = Math.max(most, byId.size) + batch;
  };
  return {
    kind,
    get: (id: string): T | undefined => byId.get(id),
    of(account: string, id: string): T | undefined {
      const record = byId.get(id);
      return record?.account === account ? record : undefined;
    },
    find: (account: string, key: string): T | undefined => byKey.get(`${account}\0${key}`),
    /** Also after changing a record in place, which must not change its id, account or second key. */
    put(record: T): T {
      const before = byId.get(record.id);
      // Else changed in place: it is where it was.
      if (before !== record) {
        const list = byAccount.get(record.account) ?? [];
        byAccount.set(record.account, list);
        if (before === undefined) list.push(record);
        else {
          list[list.indexOf(before)] = record;
          if (keyOf !== undefined) byKey.delete(`${before.account}\0${keyOf(before)}`);
        }
        byId.set(record.id, record);
        if (keyOf !== undefined) byKey.set(`${record.account}\0${keyOf(record)}`, record);
      }
      journal.changed(kind, record.id, record);
      if (byId.size > forgetAt) forgetOldest();
      return record;
    },
    delete(id: string): void {
      const record = byId.get(id);
      if (record === undefined) return;
      drop(record);
      const list = byAccount.get(record.account) ?? [];
      list.splice(list.indexOf(record), 1);
    },
    /** Oldest first. Not to be kept over changes. */
    list: (account: string): readonly T[] => byAccount.get(account) ?? [],
    all: () => byId.values(),
    get size(): number {
      return byId.size;
    },
  };
}

/** Place of the first id greater than `id`, which need not be there. */
export function firstAfter(list: readonly { readonly id: string }[], id: string): number {
  let [from, to] = [0, list.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if ((list[middle]?.id ?? "") > id) to = middle;
    else from = middle + 1;
  }
  return from;
}
