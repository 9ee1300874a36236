/**
 * SQLite's codes for faults of the disk, the file or the machine. Each prefix covers its extended codes. All other codes
 * (`SQLITE_ERROR`, `CONSTRAINT`, `TOOBIG`, `MISMATCH`, `RANGE`, `MISUSE`) are faults of one statement or its values.
 */
const storageFaults = [
  "SQLITE_FULL",
  "SQLITE_IOERR",
  "SQLITE_READONLY",
  "SQLITE_BUSY",
  "SQLITE_LOCKED",
  "SQLITE_CORRUPT",
  "SQLITE_NOTADB",
  "SQLITE_CANTOPEN",
  "SQLITE_NOMEM",
  "SQLITE_PERM",
  "SQLITE_AUTH",
  "SQLITE_PROTOCOL",
  "SQLITE_NOLFS",
  "SQLITE_INTERNAL",
  "SQLITE_INTERRUPT",
  "SQLITE_SCHEMA",
];

/** Faults after which nothing in the file can be relied on: they do not go away by themselves. */
const damages = ["SQLITE_CORRUPT", "SQLITE_NOTADB"];

const hasCode = (error: unknown, prefixes: readonly string[]): boolean => {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && prefixes.some((prefix) => code === prefix || code.startsWith(`${prefix}_`));
};

/** True for whatever SQLite itself refuses. */
export const isSqliteFault = (error: unknown): boolean => hasCode(error, ["SQLITE"]);

/** True for faults of the disk or file, which hit every write alike; false for faults of one write. */
export const isStorageFault = (error: unknown): boolean => hasCode(error, storageFaults);

export const isDamage = (error: unknown): boolean => hasCode(error, damages);

/**
 * The same port, whose functions throw what `translate` makes of an error. Statements run inside of them, so that no
 * reader can let an error of SQLite out as it is. Promises are left alone: what rejects them has been translated.
 */
export function translateErrors<T>(port: T, translate: (error: unknown) => unknown): T {
  if (typeof port === "function") {
    return ((...args: unknown[]): unknown => {
      try {
        const result: unknown = port(...args);
        return typeof result === "function" ? translateErrors(result, translate) : result;
      } catch (error) {
        throw translate(error);
      }
    }) as T;
  }
  if (port === null || typeof port !== "object" || Object.getPrototypeOf(port) !== Object.prototype) return port;
  return Object.fromEntries(Object.entries(port).map(([name, part]) => [name, translateErrors(part, translate)])) as T;
}
