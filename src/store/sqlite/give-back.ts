import type { Db } from "./file.ts";

/** Free pages that stay in the file, so that it does not shrink and grow all day: 4 MiB, or a tenth of the used pages. */
const spare = { pages: 1024, share: 0.1 };
/** `PRAGMA auto_vacuum` of a file that can return its free pages. A file that was empty before the relay opened it keeps them. */
const incremental = 2;

/**
 * Returns free pages to the disk, `most` at a time, so that the file shrinks again after a campaign. False: none left.
 * Call it inside a transaction.
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
