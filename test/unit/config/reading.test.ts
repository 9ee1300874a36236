import { expect, test } from "vitest";
import type { SettingsError } from "../../../src/config/fault.ts";
import { parseForReading, parseSettings } from "../../../src/config/load.ts";
import { printSettings } from "../../../src/config/print.ts";

const text = `
server: { port: "\${PORT:-8080}" }
storage: { path: "\${RELAY_DATA:-data/relay.db}" }
control: { tokens: [{ name: ops, token: "\${RELAY_TOKEN}", scopes: [read] }, { name: spare, token: 0123456789abcdef, scopes: [listen] }] }
accounts: { main: { baseUrl: "\${BASE_URL:-https://s.example}", apiKey: "\${API_KEY}" } }
sources: { main: { signature: { service: acme, secrets: ["\${WEBHOOK_SECRET}", "\${file:/no/such/file}"] } } }
routes:
  - { name: signed, to: { url: "https://app.example/", secret: "\${CRM_SECRET}", headers: { authorization: "Bearer \${CRM_TOKEN}" } } }
`;

test("settings for reading load without any secret, and name those that are missing", () => {
  const { settings, missing } = parseForReading(text, "relay.yaml", {});
  expect(missing.map(({ path, message }) => `${path}: ${message}`)).toEqual([
    "control.tokens[0].token: needs the environment variable RELAY_TOKEN, which is not set",
    "accounts.main.apiKey: needs the environment variable API_KEY, which is not set",
    "sources.main.signature.secrets[0]: needs the environment variable WEBHOOK_SECRET, which is not set",
    "sources.main.signature.secrets[1]: needs the file /no/such/file, which does not exist",
    "routes[0].to.secret: needs the environment variable CRM_SECRET, which is not set",
    "routes[0].to.headers.authorization: needs the environment variable CRM_TOKEN, which is not set",
  ]);
  expect(settings.storage).toMatchObject({ driver: "sqlite", path: "data/relay.db" });
  expect(settings.server.port).toBe(8080);
  expect(settings.sources["main"]).toMatchObject({ account: "main" });
  expect(settings.control.tokens.map(({ name }) => name)).toEqual(["ops", "spare"]);
  expect(settings.routes.map(({ name }) => name)).toEqual(["signed"]);
});

test("a missing secret fails when it is revealed, and prints as not available", () => {
  const { settings } = parseForReading(text, "relay.yaml", { WEBHOOK_SECRET: "known" });
  expect(settings.control.tokens[1]?.token.reveal()).toBe("0123456789abcdef");
  expect(settings.sources["main"]?.signature?.secrets[0]?.reveal()).toBe("known");
  expect(() => settings.control.tokens[0]?.token.reveal()).toThrow(
    "relay.yaml:4:41 control.tokens[0].token: needs the environment variable RELAY_TOKEN, which is not set",
  );
  expect(printSettings(settings)).toContain('token: "[secret not available]"');
});

test("what would be the same with every variable set is the same for reading", () => {
  const env = {
    PORT: "81",
    RELAY_TOKEN: "fedcba9876543210",
    BASE_URL: "https://s.example",
    API_KEY: "k",
    WEBHOOK_SECRET: "w",
  };
  const whole = text.replace(', "${file:/no/such/file}"', "");
  const all = { ...env, CRM_SECRET: "s", CRM_TOKEN: "t" };
  expect(parseForReading(whole, "f", all)).toEqual({
    settings: parseSettings(whole, "f", all),
    missing: [],
  });
});

test.each([
  [
    "the store's own variable",
    'storage: { path: "${NONE}" }',
    "storage.path: needs the environment variable NONE, which is not set",
  ],
  [
    "a missing value that is no secret",
    text.replace("PORT:-8080", "PORT"),
    "server.port: needs the environment variable PORT, which is not set",
  ],
  ["an unknown setting", `${text}\nlogs: {}`, "logs: unknown setting (did you mean log?)"],
  ["a malformed variable", 'log: { level: "${1}" }', "log.level: has ${ that begins no variable"],
  [
    "an account that is not there",
    `${text.replace("{ signature", "{ account: shop, signature")}`,
    "sources.main.account: names no account",
  ],
])("%s is a fault for reading too", (_what, faulty, message) => {
  const faults = () => {
    try {
      parseForReading(faulty, "relay.yaml", {});
    } catch (error) {
      return (error as SettingsError).faults.map((fault) => `${fault.path}: ${fault.message}`);
    }
    return [];
  };
  expect(faults()).toEqual([expect.stringContaining(message)]);
});
