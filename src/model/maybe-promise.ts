/** SQLite has it at once, PostgreSQL later. */
export type MaybePromise<T> = T | Promise<T>;
