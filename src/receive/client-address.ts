import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import proxyAddr from "@fastify/proxy-addr";

/** Some proxies add the client's port, and brackets around an IPv6 address. */
const withPort = /^(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+))(?::[0-9]{1,5})?$/;

function withoutPort(entry: string): string {
  const match = withPort.exec(entry);
  return match?.[1] ?? match?.[2] ?? entry;
}

/** The address of the client that sent a request, looking through trusted proxies; `-` when a trusted proxy gives none. */
export function clientAddress(trusted: readonly string[]): (request: IncomingMessage) => string {
  const trust = proxyAddr.compile([...trusted]);
  return (request) => {
    const address = withoutPort(proxyAddr(request, (entry, hop) => trust(withoutPort(entry), hop)));
    return isIP(address) === 0 ? "-" : address;
  };
}
