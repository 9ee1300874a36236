import { expect, test } from "vitest";
import { mergeRoutes } from "../../../src/store/sqlite/read-deliveries.ts";

test("a page of all routes reads few rows of each, and is the latest", () => {
  const [routes, limit] = [Array.from({ length: 100 }, (_, n) => n + 1), 50];
  const rows = Array.from({ length: 20_000 }, (_, n) => ({ event: 20_000 - Math.floor(n / 2), route: (n * 37) % 100 || 100 }));
  const latest = rows.toSorted((a, b) => b.event - a.event || b.route - a.route);
  let read = 0;
  const found = mergeRoutes(routes, limit, (route, after) => {
    const page = latest.filter((row) => row.route === route && row.event > after).slice(0, limit);
    read += page.length;
    return page;
  });
  expect(found).toEqual(latest.slice(0, limit));
  // A page of each route would be 5,000.
  expect(read).toBeLessThan(500);
});
