import { type LookupAddress, lookup as systemLookup } from "node:dns";
import type { LookupFunction } from "node:net";
import ipaddr from "ipaddr.js";
import { ConnectionFailed } from "./connection-failed.ts";

/** All of the global unicast space that is assigned (RFC 4291, IANA): the rest has special uses or none. */
const globalUnicast = ipaddr.IPv6.parseCIDR("2000::/3");
/** NAT64 (RFC 6052): how a public IPv4 address looks on a network that has IPv6 only. */
const nat64 = ipaddr.IPv6.parseCIDR("64:ff9b::/96");

/**
 * True for public unicast addresses, and false for all others: loopback, private, link-local (the
 * metadata services of clouds), shared, multicast, documentation, what is no address at all. An IPv4
 * address inside an IPv6 one (mapped, NAT64) counts as itself; 6to4 and Teredo are refused.
 */
export function isPublicAddress(text: string): boolean {
  // The long deprecated `::8.8.8.8`, which ipaddr.js would read as `::ffff:8.8.8.8`: another address.
  if (!ipaddr.isValid(text) || /^::\d+\./.test(text)) return false;
  const address = ipaddr.parse(text);
  if (address instanceof ipaddr.IPv4) return address.range() === "unicast";
  if (address.isIPv4MappedAddress()) return address.toIPv4Address().range() === "unicast";
  if (address.match(nat64)) return new ipaddr.IPv4(address.toByteArray().slice(12)).range() === "unicast";
  return address.match(globalUnicast) && address.range() === "unicast";
}

/** The failure of an attempt to reach `address`. */
export function blockedAddress(address: string): ConnectionFailed {
  return new ConnectionFailed("blocked", `${address} is not a public address, and the destination's allowPrivate is off`);
}

/** What resolves a name to all its addresses: `dns.lookup` with `all`. */
export type LookupAll = (
  name: string,
  options: { all: true },
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

/**
 * A lookup for the connections of one host that gives allowed addresses only. What it gives is what is
 * connected to, so a name that resolves differently the next time (DNS rebinding) gains nothing.
 *
 * Connections that start together share one look-up: `getaddrinfo` runs on a pool of four threads, and
 * a name server that hangs for one destination must not take all four from the others.
 */
export function guardedLookup(isAllowed: (address: string) => boolean, lookup: LookupAll = systemLookup): LookupFunction {
  type Waiting = (error: Error | null, addresses: LookupAddress[]) => void;
  let waiting: Waiting[] | null = null;

  function lookupOnce(name: string, callback: Waiting): void {
    if (waiting !== null) {
      waiting.push(callback);
      return;
    }
    const together = [callback];
    waiting = together;
    lookup(name, { all: true }, (error, addresses) => {
      waiting = null;
      const failure = error === null ? null : new ConnectionFailed("dns", `${name} does not resolve (${error.code ?? error.message})`);
      for (const each of together) each(failure, addresses);
    });
  }

  return (name, options, callback) => {
    lookupOnce(name, (error, addresses) => {
      if (error !== null) return callback(error, "");
      const [first] = addresses;
      if (first === undefined) return callback(new ConnectionFailed("dns", `${name} has no address`), "");
      const allowed = addresses.filter(({ address }) => isAllowed(address));
      const [chosen] = allowed;
      if (chosen === undefined) return callback(blockedAddress(`${name} (${first.address})`), "");
      if (options.all === true) callback(null, allowed);
      else callback(null, chosen.address, chosen.family);
    });
  };
}
