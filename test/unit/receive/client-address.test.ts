import type { IncomingMessage } from "node:http";
import { expect, test } from "vitest";
import { clientAddress } from "../../../src/receive/client-address.ts";

const request = (remoteAddress: string | undefined, forwardedFor?: string) =>
  ({
    socket: { remoteAddress },
    headers: forwardedFor === undefined ? {} : { "x-forwarded-for": forwardedFor },
  }) as unknown as IncomingMessage;

const address = clientAddress(["loopback", "10.0.0.0/8", "2001:db8:ffff::/48"]);

test.each([
  ["192.0.2.1:5678", "192.0.2.1"],
  ["[2001:db8::1]:99", "2001:db8::1"],
  ["[2001:db8::1]", "2001:db8::1"],
  ["2001:db8::1", "2001:db8::1"],
  ["203.0.113.9, 192.0.2.1:5678", "192.0.2.1"],
  // Through proxies of ours that give ports themselves.
  ["203.0.113.9:1, 192.0.2.1:5678, 10.1.2.3:443", "192.0.2.1"],
  ["192.0.2.1:5678, [2001:db8:ffff::2]:443, 10.1.2.3", "192.0.2.1"],
])("reads the address out of %s", (forwardedFor, expected) => {
  expect(address(request("127.0.0.1", forwardedFor))).toBe(expected);
});

test.each([
  "unknown",
  "192.0.2.1:",
  "192.0.2.1:x",
  "192.0.2.1:123456",
  "[192.0.2.1",
  "[]:1",
  "1.2.3.4.5:1",
  ":5678",
  "a".repeat(5_000),
])("gives no address for %s", (forwardedFor) => {
  expect(address(request("127.0.0.1", forwardedFor))).toBe("-");
});

test("ignores the header of a client that is not a trusted proxy, also one that claims a port", () => {
  expect(address(request("192.0.2.7", "198.51.100.1:5"))).toBe("192.0.2.7");
  expect(address(request("127.0.0.1", "198.51.100.1, 192.0.2.7:1"))).toBe("192.0.2.7");
  expect(clientAddress([])(request("127.0.0.1", "198.51.100.1"))).toBe("127.0.0.1");
});

test("gives no address for a connection that has ended", () => {
  expect(address(request(undefined))).toBe("-");
});
