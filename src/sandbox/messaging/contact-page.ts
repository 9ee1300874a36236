import type { ContactRecord } from "../world/records.ts";
import { firstAfter } from "../world/table.ts";

export interface ContactPage {
  readonly data: readonly ContactRecord[];
  /** Where the next page begins; null on the last page. */
  readonly next: string | null;
}

/**
 * A page of `contacts`, which are in order of their ids (messaging-service-api.md, "GET /contacts"). A page that is
 * full has a `next` even when nothing follows: it then finds nothing, or what was added since. `after` need
 * not be there any more, nor ever have been: the sandbox's choice.
 */
export function contactPage(contacts: readonly ContactRecord[], { limit, after }: { limit: number; after?: string }): ContactPage {
  const start = after === undefined ? 0 : firstAfter(contacts, after);
  const data = contacts.slice(start, start + limit);
  return { data, next: data.length === limit ? (data.at(-1)?.id ?? null) : null };
}
