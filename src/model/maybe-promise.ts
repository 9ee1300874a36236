/** The embedded engine has it at once, the Redis engine later. */
export type MaybePromise<T> = T | Promise<T>;
