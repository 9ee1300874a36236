// biome-ignore-all lint/suspicious/noTemplateCurlyInString: variables of settings look like those of templates
import { expect, test } from "vitest";
import { z } from "zod";
import { editorSchema, knownKeys } from "../../../src/config/json-schema.ts";

/** The schema as an editor would use it: read back by zod, which checks what it knows of JSON Schema. */
const editor = z.fromJSONSchema(editorSchema() as Parameters<typeof z.fromJSONSchema>[0]);
const accepts = (value: unknown) => editor.safeParse(value).success;

const source = (rest: object) => ({ sources: { s: { account: "m", signature: { service: "a", secrets: ["x"] }, ...rest } } });
const to = (rest: object) => ({ routes: [{ name: "r", to: { url: "https://a.example", ...rest } }] });

test("a variable may stand wherever text, a number or true/false may", () => {
  for (const text of ["${X}", "${X:-8080}", "${X:-}", "${file:/run/secrets/x}", "${file:${DIR}/x}"]) {
    expect(accepts({ server: { port: text, host: text, bodyLimit: text } })).toBe(true);
    expect(accepts({ log: { level: text }, retention: { events: text }, storage: { driver: text, path: text } })).toBe(true);
    expect(accepts(to({ url: text, allowPrivate: text, rate: text, retry: { schedule: [text], jitter: text } }))).toBe(true);
  }
});

test("marks what is neither a value nor a variable", () => {
  for (const text of ["many", "${", "${1X}", "${file:}"]) {
    expect(accepts({ server: { port: text } })).toBe(false);
    expect(accepts({ server: { bodyLimit: text } })).toBe(false);
    expect(accepts({ log: { level: text } })).toBe(false);
    expect(accepts(to({ allowPrivate: text }))).toBe(false);
  }
  expect(accepts({ server: { prot: 1 } })).toBe(false);
  expect(accepts({ routes: [{ name: "r" }] })).toBe(false);
});

test("a source is one of its kinds", () => {
  expect(accepts(source({}))).toBe(true);
  expect(accepts(source({ kind: "events", fields: { wamid: ["a.b"] } }))).toBe(true);
  expect(accepts(source({ kind: "automation-request", mode: "ack" }))).toBe(true);
  expect(accepts(source({ mode: "ack" }))).toBe(false);
  expect(accepts(source({ kind: "other" }))).toBe(false);
});

test("keys are known at every depth, through names, lists and kinds", () => {
  expect(knownKeys([])).toContain("routes");
  expect(knownKeys(["sources", "any", "signature"])).toContain("tolerance");
  expect(knownKeys(["sources", "any"])).toEqual(new Set(["account", "kind", "signature", "fields", "mode", "dedupe", "to"]));
  expect(knownKeys(["routes", 3, "to", "retry"])).toEqual(new Set(["schedule", "jitter"]));
  expect(knownKeys(["routes", 0, "match", "where", "$or", 1, "$not"])).toContain("$and");
  expect(knownKeys(["nothing", "here"])).toEqual(new Set());
});
