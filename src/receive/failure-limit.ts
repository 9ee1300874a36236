import ipaddr from "ipaddr.js";

interface Failure {
  /** Seconds that are left of the window when the address is over the limit, else null. */
  readonly waitSeconds: number | null;
  /** False where a log line for each would be too many. */
  readonly isLogged: boolean;
}

/** Counts bad signatures, or bad tokens, by address over one-minute windows. */
interface FailureLimit {
  count(address: string, now: number): Failure;
}

const windowMs = 60_000;
/** Addresses counted apart; all others share one count. */
const maxAddresses = 10_000;
/** Log lines in a window, whatever the number of addresses. */
const maxLogged = 600;

/**
 * The limit only turns the answer to a failure into 429. A good signature or token is always taken, because behind a proxy
 * an attacker and a good sender can share one address.
 */
export function createFailureLimit(limit: () => number): FailureLimit {
  let windowStart = 0;
  let logged = 0;
  let counts = new Map<string, number>();
  return {
    count(address, now) {
      if (now - windowStart >= windowMs || now < windowStart) {
        windowStart = now;
        logged = 0;
        counts = new Map();
      }
      const wanted = networkOf(address);
      const key = counts.has(wanted) || counts.size < maxAddresses ? wanted : "others";
      const seen = (counts.get(key) ?? 0) + 1;
      counts.set(key, seen);
      if (seen > limit()) return { waitSeconds: Math.max(1, Math.ceil((windowStart + windowMs - now) / 1000)), isLogged: false };
      logged += 1;
      return { waitSeconds: null, isLogged: logged <= maxLogged };
    },
  };
}

/** One IPv6 host usually has a whole /64. An IPv4 address counts the same in either notation. */
function networkOf(address: string): string {
  if (!address.includes(":") || !ipaddr.isValid(address)) return address;
  const parsed = ipaddr.IPv6.parse(address);
  return parsed.isIPv4MappedAddress() ? parsed.toIPv4Address().toString() : parsed.parts.slice(0, 4).join(":");
}
