import { expect, test } from "vitest";
import { parseSettings } from "../../../src/config/load.ts";
import { changedParts } from "../../../src/config/schema.ts";

const settings = (text: string) => parseSettings(text, "relay.yaml", {});
const redis = (url: string) => settings(`storage: { driver: redis, url: "${url}" }`);

test("a changed password is a change, although it prints the same", () => {
  const parts = ["server", "storage", "log"] as const;
  expect(changedParts(redis("redis://:a@r"), redis("redis://:a@r"), parts)).toEqual([]);
  expect(changedParts(redis("redis://:a@r"), redis("redis://:b@r"), parts)).toEqual(["storage"]);
  expect(changedParts(settings("log: { level: info }"), settings("log: { level: warn }\nserver: { port: 1 }"), parts)).toEqual([
    "server",
    "log",
  ]);
});
