import { expect, test } from "vitest";
import { createDigests } from "../../../src/app/instance.ts";
import { perSettings } from "../../../src/app/per-settings.ts";
import { digesting, digestSettings } from "../../../src/config/digest.ts";
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

test("digests settings once for each reload and key, in steps", async () => {
  const digests = createDigests();
  const [before, after] = [settingsOf(200), settingsOf(201)];
  const first = digests(before, "a-key");
  expect(digests(before, "a-key")).toBe(first);
  expect(await first).toEqual(digestSettings(before, "a-key"));
  expect(await digests(before, "b-key")).toEqual(digestSettings(before, "b-key"));
  expect(await digests(after, "b-key")).toEqual(digestSettings(after, "b-key"));
  // One step for each digest.
  expect([...digesting(before, "a-key")].length).toBe(Object.keys(digestSettings(before, "a-key")).length);
});
