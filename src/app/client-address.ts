import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import proxyAddr from "@fastify/proxy-addr";

/** The address of who sent a request, looking through trusted proxies; `-` when it cannot be told. */
export function clientAddress(trusted: readonly string[]): (request: IncomingMessage) => string {
  const trust = proxyAddr.compile([...trusted]);
  return (request) => {
    const address = proxyAddr(request, trust);
    return isIP(address) === 0 ? "-" : address;
  };
}
