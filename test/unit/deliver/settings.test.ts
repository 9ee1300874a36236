import { inspect } from "node:util";
import { expect, test } from "vitest";
import { breakerName, rateOf, urlDestinationSchema } from "../../../src/deliver/settings.ts";

const parse = (settings: Record<string, unknown>) =>
  urlDestinationSchema.safeParse({ url: "https://x.example/", ...settings });

test("hides header values in prints and passes them to the destination", () => {
  const settings = urlDestinationSchema.parse({
    url: "https://x.example/",
    headers: { authorization: "Bearer abc123" },
  });
  expect(inspect(settings) + JSON.stringify(settings)).not.toContain("abc123");
  expect(settings.headers["authorization"]?.reveal()).toBe("Bearer abc123");
});

test.each([
  ["credentials in the URL", { url: "https://user:pass@x.example/" }],
  ["another scheme", { url: "ftp://x.example/" }],
  ["an empty whsec_ secret, which would sign with no key", { secret: "whsec_" }],
  ["a header of the relay's", { headers: { "Webhook-Id": "1" } }],
  ["a header of the connection's", { headers: { "Transfer-Encoding": "chunked" } }],
  ["a header value with a line break", { headers: { "x-a": "1\r\nx-b: 2" } }],
])("refuses %s", (_what, settings) => {
  expect(parse({}).success).toBe(true);
  expect(parse(settings).success).toBe(false);
});

test("shards divide the rate of a route, and start with its stored breaker", () => {
  const to = urlDestinationSchema.parse({ url: "https://x.example/", rate: "90/s" });
  const route = { name: "crm", payload: "original", shards: 3, to } as const;
  const shards = [0, 1, 2].map((number) => ({ ...route, shard: { number, of: 3 } }));
  expect(shards.map(rateOf)).toEqual([30, 30, 30]);
  expect(rateOf(route)).toBe(90);
  expect(shards.map(breakerName)).toEqual(shards.map(() => breakerName(route)));
});

test("a breaker outlives a change of what its route matches, but not of the destination", () => {
  const to = urlDestinationSchema.parse({ url: "https://x.example/" });
  const route = { name: "crm", payload: "original", to } as const;
  const names = [{ match: { statuses: ["failed"] } }, { to: { ...to, timeout: 1_000 } }].map(
    (change) => breakerName({ ...route, ...change }),
  );
  expect(names.map((name) => name === breakerName(route))).toEqual([true, false]);
});
