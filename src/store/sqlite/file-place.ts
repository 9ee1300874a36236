import { statSync } from "node:fs";

/**
 * Watches that the file and its write-ahead log stay where they are. Deleted or replaced files still take
 * writes through the handles of a running process, and lose them with it. Gives a check, two calls of
 * the system long: false while one of them is not the file it was.
 */
export function watchPlace(path: string): () => boolean {
  const parts = [path, `${path}-wal`].map((part) => [part, identityOf(part)] as const);
  return () => parts.every(([part, identity]) => identityOf(part) === identity);
}

function identityOf(path: string): string | null {
  try {
    const found = statSync(path, { throwIfNoEntry: false });
    return found === undefined ? null : `${found.dev}:${found.ino}`;
  } catch {
    return null;
  }
}
