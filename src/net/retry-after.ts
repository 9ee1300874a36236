const seconds = /^\d+$/;
/** The three formats of RFC 9110, section 5.6.7. `Date.parse` alone would accept many more. */
const imfDate = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;
const rfc850Date = /^[A-Z][a-z]+day, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/;
const asctimeDate = /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/;

/**
 * The wait that a `Retry-After` header asks for from `now` (unix milliseconds), in milliseconds from 0 to `longest`: a
 * wrong year must not delay a delivery forever. Accepts seconds or an HTTP date; null when absent or neither.
 */
export function retryAfterMs(header: string | readonly string[] | undefined, now: number, longest: number): number | null {
  const bounded = (ms: number): number => Math.min(Math.max(ms, 0), longest);
  const text = (typeof header === "string" ? header : header?.[0])?.trim();
  if (text === undefined) return null;
  if (seconds.test(text)) return bounded(Number(text) * 1000);
  const at = httpDate(text);
  return at === null ? null : bounded(at - now);
}

/** An HTTP date in unix ms; null when it is none. */
export function httpDate(text: string): number | null {
  const isDate = imfDate.test(text) || rfc850Date.test(text);
  const at = isDate ? Date.parse(text) : asctimeDate.test(text) ? Date.parse(`${text} GMT`) : Number.NaN;
  return Number.isNaN(at) ? null : at;
}
