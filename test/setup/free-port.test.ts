import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { freePort } from "./free-port.ts";

test("a port is reserved once, and the system assigns it to nobody", async () => {
  const ports = await Promise.all(Array.from({ length: 20 }, freePort));
  expect(new Set(ports).size).toBe(20);
  const range = "/proc/sys/net/ipv4/ip_local_port_range";
  const [lowest] =
    process.platform === "linux" ? readFileSync(range, "utf8").split(/\s+/).map(Number) : [49_152];
  expect(Math.max(...ports)).toBeLessThan(lowest ?? 0);
  // The highest one that `fetch` refuses.
  expect(Math.min(...ports)).toBeGreaterThan(10_080);
});
