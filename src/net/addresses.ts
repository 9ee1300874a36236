import { isIP, type LookupFunction } from "node:net";
import ipaddr from "ipaddr.js";
import type { AttemptError } from "../model/delivery.ts";
import { type LookupAll, lookUpName, lookupFunction } from "./name-lookup.ts";

/** Nothing was sent. `message` is for the operator. */
export class ConnectionFailed extends Error {
  override readonly name = "ConnectionFailed";
  readonly error: AttemptError;
  readonly code: string;

  constructor(error: AttemptError, message: string, code: string = error) {
    super(message);
    this.error = error;
    this.code = code;
  }
}

/** The assigned global unicast space (RFC 4291, IANA). */
const globalUnicast = ipaddr.IPv6.parseCIDR("2000::/3");
/** NAT64 (RFC 6052): public IPv4 addresses on a network that has IPv6 only. */
const nat64 = ipaddr.IPv6.parseCIDR("64:ff9b::/96");

/**
 * Also false for the metadata services of clouds, 6to4 and Teredo. An IPv4 address inside an IPv6
 * one is checked as IPv4.
 */
export function isPublicAddress(text: string): boolean {
  // The deprecated `::8.8.8.8`, which ipaddr.js would read as `::ffff:8.8.8.8`, a different
  // address.
  if (!ipaddr.isValid(text) || /^::\d+\./.test(text)) return false;
  const address = ipaddr.parse(text);
  if (address instanceof ipaddr.IPv4) return address.range() === "unicast";
  if (address.isIPv4MappedAddress()) return address.toIPv4Address().range() === "unicast";
  if (address.match(nat64))
    return new ipaddr.IPv4(address.toByteArray().slice(12)).range() === "unicast";
  return address.match(globalUnicast) && address.range() === "unicast";
}

/**
 * Whether the host of a valid URL is `localhost` or not a public address. Names are not looked up:
 * connections check them.
 */
export function isPrivateHost(url: string): boolean {
  const host = hostOf(url);
  return isLocalhost(host) || (isIP(host) !== 0 && !isPublicAddress(host));
}

export function isLoopbackHost(url: string): boolean {
  const host = hostOf(url);
  return isLocalhost(host) || (isIP(host) !== 0 && ipaddr.process(host).range() === "loopback");
}

/** The URL parser normalizes 127.1, 0x7f000001 and 2130706433. */
const hostOf = (url: string): string =>
  new URL(url).hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "");
const isLocalhost = (host: string): boolean => host === "localhost" || host.endsWith(".localhost");

export function blockedAddress(address: string): ConnectionFailed {
  return new ConnectionFailed(
    "blocked",
    `${address} is not a public address, and the destination's allowPrivate is off`,
  );
}

/**
 * As other programs write a Unix socket: `http://unix:/run/app.sock`. It would name a host "unix".
 */
export function isUnixSocket(url: string): boolean {
  return /^https?:\/\/unix:\//i.test(url);
}

export function isHttpUrl(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && /^https?:$/.test(url.protocol);
}

export function hasCredentials(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && (url.username !== "" || url.password !== "");
}

export const unixSocketFault =
  "is a Unix socket, and the relay connects to hosts only: give host and port";

/** The socket connects to the returned address, so that DNS rebinding gains nothing. */
export function guardedLookup(
  isAllowed: (address: string) => boolean,
  lookup: LookupAll = lookUpName,
): LookupFunction {
  return lookupFunction(async (name) => {
    const addresses = await lookup(name).catch((error: NodeJS.ErrnoException) => {
      const why =
        error.code === "ETIMEOUT"
          ? "the name servers do not answer"
          : (error.code ?? error.message);
      throw new ConnectionFailed("dns", `${name} does not resolve (${why})`, error.code);
    });
    const [first] = addresses;
    if (first === undefined) throw new ConnectionFailed("dns", `${name} has no address`);
    const allowed = addresses.filter(({ address }) => isAllowed(address));
    if (allowed.length === 0) throw blockedAddress(`${name} (${first.address})`);
    return allowed;
  });
}
