import Database from "better-sqlite3";

/**
 * Rows of a store's file, read past all of the relay's own code, beside the process that writes it.
 */
export function rowsOf<Row = Record<string, unknown>>(
  storePath: string,
  sql: string,
  ...values: unknown[]
): Row[] {
  const db = new Database(storePath, { readonly: true, timeout: 60_000 });
  try {
    return db.prepare<unknown[], Row>(sql).all(...values);
  } finally {
    db.close();
  }
}

/** What SQLite itself finds wrong in the file: `ok`, or its complaints. */
export function integrityOf(storePath: string): string {
  return rowsOf<{ integrity_check: string }>(storePath, "PRAGMA integrity_check")
    .map((row) => row.integrity_check)
    .join("; ");
}
