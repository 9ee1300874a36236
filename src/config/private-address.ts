import ipaddr from "ipaddr.js";

/**
 * True when the host of a URL is written as an address, or `localhost`, that is not on the public internet:
 * loopback, private, link-local, and whatever else is no plain unicast. A name is not looked up here; what
 * it stands for is checked each time a destination is connected to. `url` is valid.
 */
export function isPrivateHost(url: string): boolean {
  // The URL parser brings 127.1, 0x7f000001 and 2130706433 to one form.
  const host = new URL(url).hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "");
  if (host === "localhost" || host.endsWith(".localhost")) return true;
  if (!ipaddr.isValid(host)) return false;
  const address = ipaddr.process(host);
  return address.range() !== "unicast";
}
