import { expect, test } from "vitest";
import { createReplaying, type ReplayingParts } from "../../../src/replay/replaying.ts";

/** Events from 1 on with a dead delivery on the routes a and b. */
function replayingOf(events: number, more: Partial<ReplayingParts> = {}) {
  const replayed: number[] = [];
  const store: Pick<ReplayingParts["store"], "findReplay" | "replay"> = {
    findReplay(_filter, cursor, _now, limit) {
      const next = Array.from(
        { length: Math.min(limit, events - cursor.event) },
        (_, n) => cursor.event + 1 + n,
      );
      const found = next.map((event) => ({ event, route: event % 10 === 0 ? "b" : "a" }));
      return {
        found,
        cursor: next.length < limit ? null : { ...cursor, event: next.at(-1) as number },
      };
    },
    async replay(found) {
      replayed.push(...found.map(({ event }) => event));
      return { replayed: found.length, due: [] };
    },
  };
  const parts = {
    now: () => 1,
    isRouted: (route: string) => route === "a",
    announce: () => {},
    stopping: () => false,
    ...more,
  };
  return {
    replayed,
    replaying: createReplaying({ ...parts, store: store as ReplayingParts["store"] }),
  };
}

test("replays in steps up to the limit, and nothing of a route that is not in the settings", async () => {
  const { replayed, replaying } = replayingOf(1_000);
  for (let next: string | null = null; ; ) {
    const step: { replayed: number; next: string | null } = await replaying.replay(
      { states: ["dead"] },
      next,
      70,
    );
    expect(step.replayed).toBeLessThanOrEqual(70);
    next = step.next;
    if (next === null) break;
  }
  expect(replayed).toEqual(
    Array.from({ length: 1_000 }, (_, n) => n + 1).filter((event) => event % 10 !== 0),
  );
});

test("a shutdown ends it between two steps, and reports where to continue", async () => {
  let isStopping = false;
  const { replayed, replaying } = replayingOf(1_000, {
    stopping: () => isStopping,
    announce() {
      isStopping = true;
    },
  });
  for (let next: string | null = null; ; isStopping = false) {
    const before = replayed.length;
    ({ next } = await replaying.replay({ states: ["dead"] }, next, 10_000));
    expect(replayed.length - before).toBeLessThanOrEqual(250);
    if (next === null) break;
  }
  expect(replayed).toHaveLength(900);
});
