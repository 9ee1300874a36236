type Reviver = (key: string, value: unknown, context: { readonly source?: string }) => unknown;
// Node has the third argument, TypeScript's library does not know it yet.
const parseWith = JSON.parse as (text: string, reviver: Reviver) => unknown;

/** An integer that JavaScript would round has 16 digits at least. */
const longNumber = /\d{16}/;
const digits = /^-?\d+$/;

/** `JSON.parse`, but an integer that would be rounded becomes a text with its digits. Throws as `JSON.parse` does. */
export function parseExact(text: string): unknown {
  if (!longNumber.test(text)) return JSON.parse(text) as unknown;
  return parseWith(text, (_key, value, { source = "" }) =>
    mayBeRounded(value) && digits.test(source) && source !== String(value) ? source : value,
  );
}

export function mayBeRounded(value: unknown): value is number {
  return Number.isInteger(value) && !Number.isSafeInteger(value);
}
