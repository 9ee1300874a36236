import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import proxyAddr from "@fastify/proxy-addr";
import ipaddr from "ipaddr.js";

const withPort = /^(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+))(?::[0-9]{1,5})?$/;

function withoutPort(entry: string): string {
  const match = withPort.exec(entry);
  return match?.[1] ?? match?.[2] ?? entry;
}

/** `-` when a trusted proxy gives none. */
export function clientAddress(trusted: readonly string[]): (request: IncomingMessage) => string {
  const trust = proxyAddr.compile([...trusted]);
  return (request) => {
    const address = withoutPort(proxyAddr(request, (entry, hop) => trust(withoutPort(entry), hop)));
    return isIP(address) === 0 ? "-" : address;
  };
}

interface Failure {
  /** Null: the address is within the limit. */
  readonly waitSeconds: number | null;
  readonly isLogged: boolean;
}

const windowMs = 60_000;
/** All others share one count. */
const maxAddresses = 10_000;
/** Per window, over all addresses. */
const maxLogged = 600;

/**
 * Only turns the answer to a failure into 429: an attacker and a valid sender can share one
 * address.
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
      if (seen > limit())
        return {
          waitSeconds: Math.max(1, Math.ceil((windowStart + windowMs - now) / 1000)),
          isLogged: false,
        };
      logged += 1;
      return { waitSeconds: null, isLogged: logged <= maxLogged };
    },
  };
}

/** One IPv6 host usually has a whole /64. An IPv4 address counts the same in either notation. */
function networkOf(address: string): string {
  if (!address.includes(":") || !ipaddr.isValid(address)) return address;
  const parsed = ipaddr.IPv6.parse(address);
  return parsed.isIPv4MappedAddress()
    ? parsed.toIPv4Address().toString()
    : parsed.parts.slice(0, 4).join(":");
}
