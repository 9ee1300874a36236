/** What one engine has at once and another one asks for. */
export type Soon<T> = T | Promise<T>;
