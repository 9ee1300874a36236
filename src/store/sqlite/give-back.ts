import type { Db } from "./open.ts";

/** Free pages that stay in the file for what comes next, so that it does not shrink and grow all day: 4 MiB, or a tenth of what is used. */
const spare = { pages: 1024, share: 0.1 };
/** What `PRAGMA auto_vacuum` says of a file whose pages can be given back; one made by an early version cannot. */
const incremental = 2;

/**
 * Gives pages that hold nothing any more back to the disk, `most` at a time: after a campaign's flood the file is as
 * small as before. Gives false when there is nothing to give back. For inside a transaction.
 */
export function createGiveBack(db: Db): (most: number) => boolean {
  const look = (name: string) => db.pragma(name, { simple: true }) as number;
  const possible = look("auto_vacuum") === incremental;
  return (most) => {
    if (!possible) return false;
    const free = look("freelist_count");
    const used = look("page_count") - free;
    const surplus = Math.floor(free - Math.max(spare.pages, used * spare.share));
    if (surplus <= 0) return false;
    db.pragma(`incremental_vacuum(${Math.min(most, surplus)})`);
    return true;
  };
}
