import ipaddr from "ipaddr.js";

/**
 * True when the host of a URL is written as an address, or `localhost`, that is not on the public internet:
 * loopback, private, link-local, and whatever else is no plain unicast. A name is not looked up here; what
 * it stands for is checked each time a destination is connected to. `url` is valid.
 */
export function isPrivateHost(url: string): boolean {
  const range = rangeOf(url);
  return range !== null && range !== "unicast";
}

/** True when the host of a URL is written as this machine itself, which nothing on the network overhears. `url` is valid. */
export function isLoopbackHost(url: string): boolean {
  return rangeOf(url) === "loopback";
}

/** The range of a host that is written as an address or `localhost`; null for other names. */
function rangeOf(url: string): string | null {
  // The URL parser brings 127.1, 0x7f000001 and 2130706433 to one form.
  const host = new URL(url).hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "");
  if (host === "localhost" || host.endsWith(".localhost")) return "loopback";
  return ipaddr.isValid(host) ? ipaddr.process(host).range() : null;
}
