/** Counts bad signatures by address over one-minute windows. */
export interface BadSignatures {
  /** Counts one; gives how many seconds are left of the window when the address is over the limit, else null. */
  count(address: string, now: number): number | null;
}

const windowMs = 60_000;
/** Addresses remembered at once; an attacker with more of them only gets 401 instead of 429. */
const maxAddresses = 10_000;

/**
 * The limit only turns the answer to a bad signature into 429: an event that proves itself is always
 * taken, because behind a proxy an attacker and the service can share one address.
 */
export function createBadSignatures(limit: number): BadSignatures {
  let windowStart = 0;
  let counts = new Map<string, number>();
  return {
    count(address, now) {
      if (now - windowStart >= windowMs || now < windowStart) {
        windowStart = now;
        counts = new Map();
      }
      const seen = (counts.get(address) ?? 0) + 1;
      if (counts.has(address) || counts.size < maxAddresses) counts.set(address, seen);
      return seen > limit ? Math.max(1, Math.ceil((windowStart + windowMs - now) / 1000)) : null;
    },
  };
}
