import { expect, test } from "vitest";
import { hydrationLines } from "../../../src/cli/story-lines.ts";
import type { AnswerOf } from "../../../src/client/relay-client.ts";

type ShownHydration = NonNullable<AnswerOf<"getEvent">["hydration"]>;

const wamid = "wamid.HBgNNTQ5MTE1NTU1MDAwMRUCABEYEkQ0";
const none: ShownHydration = {
  found: [],
  foundCount: 0,
  reason: null,
  unknown: null,
  settledAt: null,
  polled: 0,
  state: "waiting",
};

test("lists what was found", () => {
  const found = Array.from({ length: 12 }, (_, n) => ({
    id: `id-${n}`,
    seq: 100 + n,
    wamid,
    status: "delivered",
  }));
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
  expect(lines[0]).toBe(
    "    truncated   hydration done: 40 polled, 130 changes found, 2 candidates not read",
  );
  expect(lines[1]).toBe(`      event 100: delivered of ${wamid}`);
  expect(lines.at(-1)).toBe("      … 120 more");
});

test("shows a waiting hydration, and one that was given up", () => {
  expect(hydrationLines(none)).toEqual([
    "    truncated   hydration waiting: 0 polled, 0 changes found",
  ]);
  const [line] = hydrationLines({ ...none, state: "given-up", reason: "not-readable" });
  expect(line).toContain("given-up (the service's API cannot read what the event is about)");
});
