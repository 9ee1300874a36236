/** What one engine has at once and another one asks for. */
export type MaybePromise<T> = T | Promise<T>;
