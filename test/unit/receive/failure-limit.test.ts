import { expect, test } from "vitest";
import { createFailureLimit } from "../../../src/receive/client-address.ts";

function createWaits(limit: number) {
  const { count } = createFailureLimit(() => limit);
  return (address: string, now: number) => count(address, now).waitSeconds;
}

test("returns no wait up to the limit, then the seconds left of the minute", () => {
  const wait = createWaits(3);
  expect([wait("a", 1_000_000), wait("a", 1_010_000), wait("a", 1_020_000)]).toEqual([
    null,
    null,
    null,
  ]);
  expect(wait("a", 1_020_000)).toBe(40);
  expect(wait("a", 1_059_999)).toBe(1);
  expect(wait("b", 1_059_999)).toBeNull();
});

test("restarts the count when the window ends", () => {
  const wait = createWaits(1);
  wait("a", 0);
  expect(wait("a", 59_999)).toBe(1);
  expect(wait("a", 60_000)).toBeNull();
  expect(wait("a", 60_000)).toBe(60);
});

test("limits no address for longer than a window when the clock is set back", () => {
  const wait = createWaits(1);
  wait("a", 10_000_000);
  expect(wait("a", 10_000_000)).toBe(60);
  expect(wait("a", 5_000_000)).toBeNull();
  expect(wait("a", 5_000_000)).toBe(60);
});

test("counts ten thousand addresses separately, and all others together", () => {
  const wait = createWaits(2);
  for (let n = 0; n < 10_000; n++) expect(wait(`a${n}`, 0)).toBeNull();
  expect([wait("x", 1), wait("y", 1), wait("z", 1)]).toEqual([null, null, 60]);
  expect([wait("a9999", 1), wait("a9999", 1)]).toEqual([null, 60]);
});

test("counts an IPv6 network of 64 bits as one address, and an IPv4 address the same in either notation", () => {
  const wait = createWaits(1);
  expect([
    wait("2001:db8:1:2::1", 0),
    wait("2001:db8:1:2:ffff::9", 0),
    wait("2001:db8:1:3::1", 0),
  ]).toEqual([null, 60, null]);
  expect([wait("192.0.2.1", 0), wait("::ffff:192.0.2.1", 0), wait("::ffff:192.0.2.2", 0)]).toEqual([
    null,
    60,
    null,
  ]);
  expect([wait("-", 0), wait("-", 0), wait("fe80::1%eth0", 0)]).toEqual([null, 60, null]);
});

test("allows at most 600 log lines a minute, and none for an address over the limit", () => {
  const { count } = createFailureLimit(() => 2);
  expect([count("a", 0), count("a", 0), count("a", 0)].map(({ isLogged }) => isLogged)).toEqual([
    true,
    true,
    false,
  ]);
  let logged = 2;
  for (let n = 0; n < 5_000; n++) if (count(`b${n}`, 1).isLogged) logged += 1;
  expect(logged).toBe(600);
  expect(count("c", 60_000).isLogged).toBe(true);
});

test("follows a limit that changes", () => {
  let limit = 1;
  const { count } = createFailureLimit(() => limit);
  count("a", 0);
  expect(count("a", 0).waitSeconds).toBe(60);
  limit = 10;
  expect(count("a", 0).waitSeconds).toBeNull();
});
