import type { AccountSettings } from "../config/schema.ts";
import { callKinds } from "../service/limits/slots.ts";
import type { Source } from "../store/migrate/source.ts";
import type { RedisLink } from "../store/redis/client.ts";
import { createRedisCaps } from "../store/redis/shared-limits.ts";
import { createRecentCalls } from "../store/sqlite/notes.ts";

interface Target {
  readonly prefix: string;
  readonly accounts: Readonly<Record<string, Pick<AccountSettings, "baseUrl">>>;
  /** Unix ms. */
  readonly now: number;
}

/** A call counts against the caps for a minute from when it ended, which is at most ten seconds after it was let go. */
const countsMs = 60_000;
const tookMs = 10_000;

/** Calls of the last minute count against the caps that processes share, as they did for the relay that made them. Again: nothing more. */
export async function carryRecentCalls({ db, names }: Source, link: RedisLink, { prefix, accounts, now }: Target): Promise<void> {
  const recent = createRecentCalls(db, names);
  for (const [account, { baseUrl }] of Object.entries(accounts)) {
    if (baseUrl === undefined) continue;
    const ended = recent.since(account, now - countsMs - tookMs).map(({ at, cap, priority }, index) => ({
      id: `file:${at}-${index}`,
      kind: callKinds.findIndex((kind) => kind.cap === cap && kind.priority === priority),
      how: "answered" as const,
      ageMs: now - Math.min(at, now) - tookMs,
    }));
    if (ended.length === 0) continue;
    await createRedisCaps(link, prefix, account, baseUrl).step({
      holder: "file",
      born: "",
      // Nothing is asked for.
      limits: { requests: 1, messages: 1, asks: 1, polls: 1 },
      atOnce: { all: 1, others: 1 },
      graceMs: 0,
      wants: callKinds.map(() => 0),
      room: { all: 0, others: 0 },
      firstId: 1,
      ended,
      renewed: [],
      version: 0,
      next: null,
    });
  }
}
