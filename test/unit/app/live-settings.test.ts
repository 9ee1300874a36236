import { expect, test } from "vitest";
import { createLiveSettings } from "../../../src/app/observe.ts";
import { parseSettings } from "../../../src/config/load.ts";

const settingsOf = (routes: number) =>
  parseSettings(
    JSON.stringify({
      routes: Array.from({ length: routes }, (_, n) => ({
        name: `r${n}`,
        to: { url: "https://crm.example/" },
      })),
    }),
    "relay.yaml",
    {},
  );

test("hands new settings to the parts in the order in which they began to follow", () => {
  const [before, after] = [settingsOf(1), settingsOf(2)];
  const live = createLiveSettings(before);
  const took: unknown[] = [];
  live.follow((next) => took.push(["first", next === after, live.current() === after]));
  const count = live.derive(({ routes }) => routes.length);
  live.follow(() => took.push(["last", count()]));
  expect([took, live.current()]).toEqual([[], before]);

  live.apply(after);
  expect(took).toEqual([
    ["first", true, true],
    ["last", 2],
  ]);
  expect(live.initial).toBe(before);
});

test("derives a value once for each settings", () => {
  const live = createLiveSettings(settingsOf(1));
  let made = 0;
  const names = live.derive(({ routes }) => {
    made += 1;
    return routes.map(({ name }) => name);
  });
  expect([names(), names(), made]).toEqual([["r0"], ["r0"], 1]);
  live.apply(settingsOf(2));
  expect([names(), names(), made]).toEqual([["r0", "r1"], ["r0", "r1"], 2]);
});
