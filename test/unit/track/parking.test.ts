import { describe, expect, test } from "vitest";
import type { KeptVerdict, RouteVerdict } from "../../../src/model/states.ts";
import {
  dropReplaced,
  expire,
  isReplaced,
  planningFailed,
  release,
  releaseTruncated,
} from "../../../src/track/planning.ts";

const parked: KeptVerdict[] = [
  ["a", "park"],
  ["b", "skip", "status"],
];
const routedToo: KeptVerdict[] = [...parked, ["c", "deliver"]];
const skipB: RouteVerdict = { route: "b", verdict: "skip", reason: "status" };
const deliver = (route: string): RouteVerdict => ({ route, verdict: "deliver" });
const skipA = (reason: string): RouteVerdict => ({ route: "a", verdict: "skip", reason });

describe("release of a parked event", () => {
  test("replaces only the verdicts of routes that parked it", () => {
    expect(release(parked, [deliver("a"), deliver("b")])).toEqual({
      disposition: "routed",
      verdicts: [deliver("a"), skipB],
      released: [deliver("a")],
    });
  });

  test("filters an event that no route wants now", () => {
    expect(release(parked, [skipA("reference")])).toMatchObject({
      disposition: "filtered",
      verdicts: [skipA("reference"), skipB],
    });
  });

  test("skips removed routes, and all routes when planning failed", () => {
    expect(release(parked, [deliver("new")]).released).toEqual([skipA("route removed")]);
    expect(release(parked, planningFailed).released).toEqual([skipA("planning failed")]);
  });
});

test("an expired event is ignored, unless another route had it routed", () => {
  expect(expire(parked)).toEqual({
    disposition: "ignored",
    verdicts: [skipA("untracked"), skipB],
    released: [skipA("untracked")],
  });
  expect(expire(routedToo).disposition).toBe("routed");
});

describe("the end of a hydration", () => {
  test("replaces the event only when polls found updates and read every candidate", () => {
    expect(isReplaced({ reason: null, found: 1, unknown: 0 })).toBe(true);
    for (const result of [
      { reason: "too-long", found: 1, unknown: 0 },
      { reason: null, found: 0, unknown: 0 },
      { reason: null, found: 1, unknown: 1 },
    ])
      expect(isReplaced(result)).toBe(false);
  });

  test("drops a replaced event and keeps what was routed before", () => {
    expect(dropReplaced(parked)).toMatchObject({
      disposition: "filtered",
      released: [skipA("hydrated")],
    });
    expect(dropReplaced(routedToo).disposition).toBe("routed");
  });

  test("delivers an event whose body cannot be read to every route that parked it", () => {
    expect(releaseTruncated(parked, null)).toMatchObject({
      disposition: "routed",
      released: [deliver("a")],
    });
    expect(releaseTruncated(parked, [skipA("truncated")])).toMatchObject({
      disposition: "filtered",
      released: [skipA("truncated")],
    });
  });
});
