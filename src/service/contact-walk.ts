import { endpoints } from "./endpoints.ts";
import { malformed } from "./read-answer.ts";
import type { Contact, ContactPage } from "./schemas.ts";

export interface WalkedPage extends ContactPage {
  /** The cursor to save once this page's contacts are dealt with; see {@link ContactWalk.savedNext}. */
  readonly savedNext: string | null;
}

/**
 * All contacts after a cursor, in the order of their ids, page after page as they are asked for. Iterating
 * again goes on from `savedNext`: after an error, or for the contacts that came since.
 */
export interface ContactWalk extends AsyncIterable<Contact> {
  /** The same walk by pages, so that a cursor can be saved after each. */
  pages(): AsyncIterable<WalkedPage>;
  /**
   * The last `next` that was not null whose page has been dealt with to its end; at first the cursor begun
   * with. Saved and given as `after` later, it brings the new contacts and, because a page that is not full
   * comes with `next: null` (document, "GET /contacts"), those of the last such page once more: none is
   * missed, some are seen twice. Null: from the start.
   */
  readonly savedNext: string | null;
}

/** @param fetchPage rejects as the client's calls do; the walk then stands where it was. */
export function walkContacts(fetchPage: (after: string | null) => Promise<ContactPage>, after: string | null): ContactWalk {
  let savedNext = after;

  async function* pages(): AsyncGenerator<WalkedPage, void, undefined> {
    const isRound = cycleGuard();
    for (let cursor = savedNext; ; ) {
      const page = await fetchPage(cursor);
      const { next } = page;
      if (next !== null) {
        // Either would have a walk go on for ever.
        if (page.data.length === 0) throw malformed(endpoints.listContacts, 200, "a page without contacts has a next");
        if (next === cursor || isRound(next)) throw malformed(endpoints.listContacts, 200, "next leads back to a page already seen");
      }
      yield { ...page, savedNext: next ?? savedNext };
      // Only now: the consumer has come back for more, so this page is dealt with.
      savedNext = next ?? savedNext;
      if (next === null) return;
      cursor = next;
    }
  }

  return {
    async *[Symbol.asyncIterator]() {
      for await (const { data } of pages()) yield* data;
    },
    pages,
    get savedNext() {
      return savedNext;
    },
  };
}

/** Tells, sooner or later, that cursors repeat, remembering only one of them (Brent's way). */
function cycleGuard(): (cursor: string) => boolean {
  let kept: string | null = null;
  let steps = 0;
  let power = 1;
  return (cursor) => {
    if (cursor === kept) return true;
    if (++steps === power) {
      kept = cursor;
      steps = 0;
      power *= 2;
    }
    return false;
  };
}
