import { expect, test } from "vitest";
import type { AnswerOf } from "../../../src/client/relay-client.ts";

type ShownHydration = NonNullable<AnswerOf<"getEvent">["hydration"]>;

import { hydrationLines } from "../../../src/cli/event-report.ts";

const wamid = "wamid.HBgNNTQ5MTE1NTU1MDAwMRUCABEYEkQ0";
const none: ShownHydration = {
  found: [],
  foundCount: 0,
  candidates: null,
  reason: null,
  unknown: null,
  settledAt: null,
  polled: 0,
  state: "waiting",
};

test("lists what was found", () => {
  const found = Array.from({ length: 12 }, (_, n) => ({ id: `id-${n}`, seq: 100 + n, wamid, status: "delivered" }));
  const done: ShownHydration = {
    ...none,
    state: "done",
    polled: 40,
    found,
    foundCount: 130,
    unknown: 2,
    settledAt: "2026-11-21T12:00:00.000Z",
  };
  const lines = hydrationLines(done);
  expect(lines).toContain("  unknown      2 candidates were not read");
  expect(lines).toContain("    … 120 more");
  expect(lines[1]).toMatch(/^ {2}state {8}done 2026-11-21 12:00:00/);
  expect(lines[4]).toBe(`    100: ${wamid} delivered`);
});

test("shows a waiting hydration, and one that was given up", () => {
  expect(hydrationLines(none).slice(1, 5)).toEqual([
    "  state        waiting",
    "  polled       0 messages",
    "  found        nothing",
    "  unknown      not counted",
  ]);
  const candidates = [{ runId: "run-1", reference: "order-7" }];
  const lines = hydrationLines({ ...none, state: "given-up", reason: "not-readable", candidates, unknown: 1 });
  expect(lines).toContain("    run-1 (order-7)");
  expect(lines[1]).toContain("the service's API cannot read what the event is about");
});
