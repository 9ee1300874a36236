import { expect, test } from "vitest";
import { differingPaths, digestSecret, digestSettings } from "../../../src/config/digest.ts";
import { parseSettings } from "../../../src/config/load.ts";
import { Secret } from "../../../src/model/secret.ts";

const route = (name: string, secret: string) => ({ name, to: { url: `http://${name}.example/`, secret } });
const signing = (text: string) => `whsec_${Buffer.from(text.repeat(24)).toString("base64")}`;
const digests = (parts: object, key = "a-key") => digestSettings(parseSettings(JSON.stringify(parts), "relay.yaml", {}), key);
const differing = (before: object, after: object) => differingPaths(digests(before), digests(after));

test("names each setting whose value differs, secrets and defaults included", () => {
  const before = { routes: [route("crm", signing("a"))], log: { level: "info" } };
  expect(differing(before, before)).toEqual([]);
  expect(differing(before, { routes: [route("crm", signing("b"))] })).toEqual(["routes.crm.to.secret"]);
  expect(differing(before, { ...before, log: { level: "warn" }, server: { port: 1 } })).toEqual(["server.port", "log.level"]);
});

test("a route added at the top changes no other route", () => {
  const crm = route("crm", signing("a"));
  const found = differing({ routes: [crm] }, { routes: [route("new", signing("b")), crm] });
  expect(found.length).toBeGreaterThan(3);
  expect(found.filter((path) => !path.startsWith("routes.new."))).toEqual([]);
});

test("a digest holds no value, and differs with the key", () => {
  const parts = { control: { tokens: [{ name: "ops", token: "a-token-of-ops-1", scopes: ["read"] }] } };
  const path = "control.tokens.ops.token";
  const found = digests(parts);
  expect(JSON.stringify(found)).not.toContain("a-token");
  expect(found[path]).toMatch(/^[\w-]{16}$/);
  expect(found[path]).toBe(digestSecret(new Secret("a-token-of-ops-1"), "a-key"));
  expect(digests(parts, "another-key")[path]).not.toBe(found[path]);
});
