import { digitsOf } from "../meta/update.ts";
import type {
  AccountRecord,
  AppRecord,
  AutomationRecord,
  CampaignRecord,
  ContactRecord,
  ConversationRecord,
  DeliveryRecord,
  EventRecord,
  KeyRecord,
  MessageRecord,
  RecipientsRecord,
  RunRecord,
  TemplateRecord,
  WebhookRecord,
} from "./records.ts";

/** Events and their deliveries that are kept to be looked at; older ones are forgotten. */
const mostEvents = 200_000;
/** Of about 1 KB each (`bench/sandbox.ts`). */
export const usualMessages = 500_000;

export type World = ReturnType<typeof createWorld>;

/** Everything the sandbox remembers; of messages to which nothing more will happen the last `keepMessages`. */
export function createWorld(journal: Journal, { keepMessages = usualMessages }: { readonly keepMessages?: number } = {}) {
  return {
    accounts: createTable<AccountRecord>("account", journal),
    keys: createTable<KeyRecord>("key", journal, { keyOf: ({ key }) => key }),
    webhooks: createTable<WebhookRecord>("webhook", journal),
    apps: createTable<AppRecord>("app", journal, { keyOf: ({ token }) => token }),
    contacts: createTable<ContactRecord>("contact", journal, { keyOf: ({ phone }) => phone }),
    conversations: createTable<ConversationRecord>("conversation", journal),
    templates: createTable<TemplateRecord>("template", journal),
    messages: createTable<MessageRecord>("message", journal, {
      keyOf: ({ wamid }) => wamid,
      most: keepMessages,
      isOver: ({ future }) => future.length === 0,
    }),
    campaigns: createTable<CampaignRecord>("campaign", journal),
    recipients: createTable<RecipientsRecord>("recipients", journal),
    /** Second key: the id in the path of its incoming webhook. */
    automations: createTable<AutomationRecord>("automation", journal, { keyOf: ({ hookId }) => hookId }),
    runs: createTable<RunRecord>("run", journal),
    events: createTable<EventRecord>("event", journal, { most: mostEvents }),
    deliveries: createTable<DeliveryRecord>("delivery", journal, { most: mostEvents }),
  };
}

/** The account of which everything is set up at the first start. */
export const mainAccount = "main";

/** Id of an account's business account at the network provider: the sandbox's choice. */
export function wabaIdOf(account: string): string {
  return account === mainAccount ? "102290129340398" : digitsOf(`waba/${account}`, 15);
}

export interface Journal {
  changed(kind: string, id: string, record: object | null): void;
}

interface Stored {
  readonly id: string;
  readonly account: string;
}

/** Records of one kind, in order of their ids. */
export interface Table<T extends Stored> {
  readonly kind: string;
  get(id: string): T | undefined;
  /** The record when this account owns it: ids are scoped to the account. */
  of(account: string, id: string): T | undefined;
  /** By the table's second key, within an account. */
  find(account: string, key: string): T | undefined;
  /** Adds or replaces; call it again after changing a record in place, which must not change its id, account or second key. */
  put(record: T): void;
  delete(id: string): void;
  /** Of one account, oldest first. Not to be kept over changes. */
  list(account: string): readonly T[];
  all(): IterableIterator<T>;
  readonly size: number;
}

/**
 * A table in memory. `keyOf` gives the second key, unique within an account.
 * `most`: beyond so many the oldest are forgotten of which `isOver` says that nothing is to come; in batches, as
 * shifting a list of 200,000 moves all of it.
 */
export function createTable<T extends Stored>(
  kind: string,
  journal: Journal,
  {
    keyOf,
    most = Number.POSITIVE_INFINITY,
    isOver = () => true,
  }: { keyOf?: (record: T) => string; most?: number; isOver?: (record: T) => boolean } = {},
): Table<T> {
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
    // Where there is too much that is not over, all of it has been looked at: not again for each one more.
    forgetAt = Math.max(most, byId.size) + batch;
  };
  return {
    kind,
    get: (id) => byId.get(id),
    of(account, id) {
      const record = byId.get(id);
      return record?.account === account ? record : undefined;
    },
    find: (account, key) => byKey.get(`${account}\0${key}`),
    put(record) {
      const before = byId.get(record.id);
      // Changed in place, as most are, several times in their lives: it is where it was, its keys are not to be changed.
      if (before === record) return journal.changed(kind, record.id, record);
      const list = byAccount.get(record.account) ?? [];
      byAccount.set(record.account, list);
      if (before === undefined) list.push(record);
      else {
        list[list.indexOf(before)] = record;
        if (keyOf !== undefined) byKey.delete(`${before.account}\0${keyOf(before)}`);
      }
      byId.set(record.id, record);
      if (keyOf !== undefined) byKey.set(`${record.account}\0${keyOf(record)}`, record);
      journal.changed(kind, record.id, record);
      if (byId.size > forgetAt) forgetOldest();
    },
    delete(id) {
      const record = byId.get(id);
      if (record === undefined) return;
      drop(record);
      const list = byAccount.get(record.account) ?? [];
      list.splice(list.indexOf(record), 1);
    },
    list: (account) => byAccount.get(account) ?? [],
    all: () => byId.values(),
    get size() {
      return byId.size;
    },
  };
}

/** The place of the first record with an id greater than `id`, in a list in order of ids; `id` need not be there. */
export function firstAfter(list: readonly { readonly id: string }[], id: string): number {
  let [from, to] = [0, list.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if ((list[middle]?.id ?? "") > id) to = middle;
    else from = middle + 1;
  }
  return from;
}
