import { expect, test } from "vitest";
import { parseSettings } from "../../../src/config/load.ts";
import { readPage } from "../../harness/pages.ts";
import { faultsOf } from "./faults-of.ts";

const text = readPage("config/relay.yaml");

test("config/relay.yaml loads with its two variables, and needs each of them", () => {
  const env = { WEBHOOK_SECRET: "w", RELAY_TOKEN: "0123456789abcdef" };
  const loaded = parseSettings(text, "config/relay.yaml", env);
  expect([Object.keys(loaded.sources), loaded.routes.map(({ name }) => name)]).toEqual([
    ["main"],
    [],
  ]);
  expect(parseSettings(text, "config/relay.yaml", { ...env, PORT: "9000" }).server.port).toBe(9000);
  for (const name of Object.keys(env)) {
    expect(faultsOf(text, { ...env, [name]: undefined })).toEqual([
      expect.stringContaining(`needs the environment variable ${name}`),
    ]);
  }
  expect(text.split("\n", 1)[0]).toBe("# yaml-language-server: $schema=./relay.schema.json");
});

test("the commented-out parts of config/relay.yaml load too", () => {
  const env = {
    WEBHOOK_SECRET: "w",
    RELAY_TOKEN: "0123456789abcdef",
    CRM_SECRET: "c",
    ATS_TOKEN: "a",
    MESSAGING_API_KEY: "k",
  };
  // Lines that are settings, and not sentences: `# key: …` and `# - key: …`, at any depth.
  const opened = text.replace(/^( *)# ( *(?:- )?[a-zA-Z]+:(?: [^ ].*)?)$/gm, "$1$2");
  const loaded = parseSettings(opened, "opened", env);
  expect(Object.keys(loaded.sources)).toEqual(["main", "flows"]);
  expect(loaded.routes.map(({ name }) => name)).toEqual([
    "everything-to-archive",
    "failures-to-crm",
  ]);
  expect(loaded.accounts["main"]?.apiKey?.reveal()).toBe("k");
  expect(loaded.server.trustProxy).toEqual(["loopback", "10.0.0.0/8"]);
});
