import { isIP } from "node:net";
import ipaddr from "ipaddr.js";

/**
 * True when the host of a URL is `localhost` or an address that is not plain unicast. Names are not looked up here; each
 * connection checks their addresses. `url` is valid.
 */
export function isPrivateHost(url: string): boolean {
  const range = rangeOf(url);
  return range !== null && range !== "unicast";
}

export function isLoopbackHost(url: string): boolean {
  return rangeOf(url) === "loopback";
}

function rangeOf(url: string): string | null {
  // The URL parser normalizes 127.1, 0x7f000001 and 2130706433.
  const host = new URL(url).hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "");
  if (host === "localhost" || host.endsWith(".localhost")) return "loopback";
  return isIP(host) !== 0 ? ipaddr.process(host).range() : null;
}
