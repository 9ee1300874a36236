import type { TrackedQuery, TrackedView } from "../service-port.ts";
import type { RedisLink } from "./client.ts";
import { type Keys, messageName, readSubjectName } from "./keys.ts";
import { readAskRecord, readSubjectRow, rowJson } from "./rows.ts";
import { readScript } from "./script.ts";

const script = readScript("tracked-messages");
/** Reconciliation notes when it had an answer; the call began no longer than this before. */
const longestCallMs = 15_000;

/** Messages read in one step: Redis does nothing else for half a millisecond. */
const atOnce = 100;

type Found = readonly [wamid: string, registeredAt: string, row: string, record: string, isMissing: number];

/** Registered messages of an account, latest registered first, a page at a time: what sweeps walk over. */
export function createTrackedMessages({ base }: Keys, link: RedisLink) {
  /** As `trackedMessages`, no more than are read at once. */
  async function some(account: string, { withId, before, from, limit }: TrackedQuery): Promise<TrackedView[]> {
    const last = typeof before.message === "string" ? readSubjectName(before.message).key : "";
    const list = [base, account, withId ? "ti" : "tn", String(before.registeredAt), last, String(from), String(limit)];
    const found = (await link.run((redis) => script.run(redis, `${base}ti:${account}`, list))) as Found[];
    return found.map(([wamid, registeredAt, text, record, isMissing]) => {
      const row = readSubjectRow(rowJson(text));
      const answeredAt = record === "" ? null : readAskRecord(record).askedAt;
      const answered = answeredAt === null ? null : answeredAt - longestCallMs;
      return {
        message: messageName(account, wamid),
        messageId: row.serviceId,
        status: row.status,
        registeredAt: Number(registeredAt),
        sentAt: row.sentAt,
        changedAt: row.updatedAt,
        askedAt: row.askedAt === null ? answered : Math.max(row.askedAt, answered ?? row.askedAt),
        isMissing: isMissing === 1,
      };
    });
  }

  return async function trackedMessages(account: string, query: TrackedQuery): Promise<TrackedView[]> {
    const views: TrackedView[] = [];
    while (views.length < query.limit) {
      const limit = Math.min(atOnce, query.limit - views.length);
      const found = await some(account, { ...query, before: views.at(-1) ?? query.before, limit });
      views.push(...found);
      if (found.length < limit) break;
    }
    return views;
  };
}
