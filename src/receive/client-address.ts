import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import proxyAddr from "@fastify/proxy-addr";
import ipaddr from "ipaddr.js";

/** Some proxies add the client's port, and brackets around an IPv6 address. */
const withPort = /^(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+))(?::[0-9]{1,5})?$/;

function withoutPort(entry: string): string {
  const match = withPort.exec(entry);
  return match?.[1] ?? match?.[2] ?? entry;
}

/** Looking through trusted proxies; `-` when a trusted proxy gives none. */
export function clientAddress(trusted: readonly string[]): (request: IncomingMessage) => string {
  const trust = proxyAddr.compile([...trusted]);
  return (request) => {
    const address = withoutPort(proxyAddr(request, (entry, hop) => trust(withoutPort(entry), hop)));
    return isIP(address) === 0 ? "-" : address;
  };
}

interface Failure {
  /** Of the window when the address is over the limit, else null. */
  readonly waitSeconds: number | null;
  /** False when the window already has enough log lines. */
  readonly isLogged: boolean;
}

const windowMs = 60_000;
/** Addresses with a count of their own; all others share one. */
const maxAddresses = 10_000;
/** Log lines per window, over all addresses. */
const maxLogged = 600;

/**
 * Counts bad signatures, or bad tokens, by address over one-minute windows. The limit only turns the answer to a failure
 * into 429: an attacker and a valid sender can share one address behind a proxy.
 */
export function createFailureLimit(limit: () => number) {
  let windowStart = 0;
  let logged = 0;
  let counts = new Map<string, number>();
  return {
    count(address: string, now: number): Failure {
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
