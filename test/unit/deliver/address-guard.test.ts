import type { LookupFunction } from "node:net";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { guardedLookup, isPublicAddress } from "../../../src/net/addresses.ts";
import { type LookupAll, lookUpName } from "../../../src/net/name-lookup.ts";

const refused = [
  ["unspecified", "0.0.0.0", "0.1.2.3", "::"],
  ["loopback", "127.0.0.1", "127.255.255.254", "::1"],
  ["private", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fc00::1", "fd12:3456::1"],
  [
    "link-local and metadata",
    "169.254.169.254",
    "169.254.0.1",
    "fe80::1",
    "fe80::1%eth0",
    "fd00:ec2::254",
    "fec0::1",
  ],
  ["shared (CGNAT)", "100.64.0.1", "100.127.255.255"],
  ["multicast and broadcast", "224.0.0.1", "239.255.255.255", "255.255.255.255", "ff02::1"],
  ["documentation", "192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"],
  [
    "benchmarking, reserved",
    "198.18.0.1",
    "240.0.0.1",
    "192.0.0.8",
    "192.88.99.1",
    "2001:2::1",
    "100::1",
    "5f00::1",
    "4000::1",
    "e000::1",
  ],
  [
    "IPv4-mapped",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "0:0:0:0:0:ffff:a9fe:a9fe",
  ],
  [
    "IPv4-compatible and translated",
    "::127.0.0.1",
    "::7f00:1",
    "::8.8.8.8",
    "::ffff:0:127.0.0.1",
    "::ffff:0:8.8.8.8",
  ],
  ["NAT64", "64:ff9b::127.0.0.1", "64:ff9b::a00:1", "64:ff9b:1::8.8.8.8", "64:ff9b:1::a00:1"],
  [
    "6to4 and Teredo",
    "2002:7f00:1::1",
    "2002:0808:0808::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
  ],
  ["no address", "", "localhost", "example.com", "1.2.3.4.5", "::g", "127.0.0.1\0", "8.8.8.8/0"],
].flatMap(([group, ...addresses]) => addresses.map((address) => [group, address] as const));

test.each(refused)("%s: %s is not public", (_group, address) => {
  expect(isPublicAddress(address)).toBe(false);
});

test.each([
  "8.8.8.8",
  "1.1.1.1",
  "100.63.255.255",
  "172.32.0.1",
  "2606:4700:4700::1111",
  "2a00:1450:4001::1",
  "::ffff:8.8.8.8",
  "64:ff9b::8.8.8.8",
])("%s is public", (address) => {
  expect(isPublicAddress(address)).toBe(true);
});

test("classifies an IPv4 address alike in every spelling that the URL parser accepts", () => {
  fc.assert(
    fc.property(fc.ipV4(), (address) => {
      const number = address.split(".").reduce((sum, part) => sum * 256 + Number(part), 0);
      for (const spelling of [
        `${number}`,
        `0x${number.toString(16)}`,
        `0${number.toString(8)}`,
        `[::ffff:${address}]`,
      ]) {
        const host = new URL(`http://${spelling}/`).hostname.replace(/^\[|\]$/g, "");
        expect([spelling, isPublicAddress(host)]).toEqual([spelling, isPublicAddress(address)]);
      }
    }),
  );
});

describe("guardedLookup", () => {
  const ask = (guarded: LookupFunction, all = true) =>
    new Promise<unknown>((resolve) => {
      guarded("name.example", { all }, (error, address, family) =>
        resolve(error === null ? (all ? address : [address, family]) : error),
      );
    });
  const fake =
    (...addresses: string[]): LookupAll =>
    async () =>
      addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 }));

  test("returns allowed addresses only", async () => {
    const guarded = guardedLookup(
      isPublicAddress,
      fake("10.0.0.1", "8.8.8.8", "::1", "2606:4700::1"),
    );
    expect(await ask(guarded)).toEqual([
      { address: "8.8.8.8", family: 4 },
      { address: "2606:4700::1", family: 6 },
    ]);
    expect(await ask(guarded, false)).toEqual(["8.8.8.8", 4]);
  });

  test("blocks a name with private addresses only", async () => {
    expect(await ask(guardedLookup(isPublicAddress, fake("10.0.0.1", "::1")))).toMatchObject({
      error: "blocked",
    });
  });

  test("reports a dns failure for a name that does not resolve or has no address", async () => {
    expect(await ask(guardedLookup(isPublicAddress, fake()))).toMatchObject({ error: "dns" });
    const failing: LookupAll = () =>
      Promise.reject(Object.assign(new Error("x"), { code: "ENOTFOUND" }));
    expect(await ask(guardedLookup(isPublicAddress, failing))).toMatchObject({
      error: "dns",
      message: expect.stringContaining("ENOTFOUND"),
    });
  });

  test("blocks localhost with the machine's own lookup", async () => {
    const guarded = guardedLookup(isPublicAddress, lookUpName);
    const outcome = await new Promise((resolve) =>
      guarded("localhost", { all: true }, (error) => resolve(error)),
    );
    expect(outcome).toMatchObject({ error: "blocked" });
  });
});
