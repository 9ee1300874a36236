import { Link, useSearch } from "wouter-preact";
import { path } from "../app/data.ts";

/** Links to the newest and to the older page of a list whose cursor is `before` in the URL. */
export function Pages({ page, next }: { page: string; next: string | number | null }) {
  const query = Object.fromEntries(new URLSearchParams(useSearch()));
  const isNewest = query["before"] === undefined;
  if (isNewest && next === null) return null;
  return (
    <nav class="pages" aria-label="Pages of the list">
      {!isNewest && <Link href={path(page, { ...query, before: null })}>← Newest</Link>}
      {next !== null && <Link href={path(page, { ...query, before: next })}>Older →</Link>}
    </nav>
  );
}
