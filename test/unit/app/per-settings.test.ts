import { expect, test } from "vitest";
import { perSettings } from "../../../src/app/per-settings.ts";
import { parseSettings } from "../../../src/config/load.ts";

const settingsOf = (routes: number) =>
  parseSettings(
    JSON.stringify({ routes: Array.from({ length: routes }, (_, n) => ({ name: `r${n}`, to: { url: "https://crm.example/" } })) }),
    "relay.yaml",
    {},
  );

test("makes a view once for each settings", () => {
  let settings = settingsOf(1);
  let made = 0;
  const view = perSettings(
    () => settings,
    ({ routes }) => {
      made += 1;
      return routes.length;
    },
  );
  expect([view(), view(), made]).toEqual([1, 1, 1]);
  settings = settingsOf(2);
  expect([view(), view(), made]).toEqual([2, 2, 2]);
});
