import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { z } from "zod";
import {
  editorSchema,
  inputSchema,
  type JsonSchema,
  knownKeys,
  shapesOf,
  shapesUnder,
} from "../../../src/config/json-schema.ts";
import { parseSettings } from "../../../src/config/load.ts";

/**
 * The schema as an editor would use it: read back by zod, which checks what it knows of JSON
 * Schema.
 */
const editor = z.fromJSONSchema(editorSchema() as Parameters<typeof z.fromJSONSchema>[0]);
const accepts = (value: unknown) => editor.safeParse(value).success;

const source = (rest: object) => ({
  sources: { s: { account: "m", signature: { service: "a", secrets: ["x"] }, ...rest } },
});
const to = (rest: object) => ({
  routes: [{ name: "r", to: { url: "https://a.example", ...rest } }],
});

test("a variable may stand wherever text, a number or true/false may", () => {
  for (const text of [
    "${X}",
    "${X:-8080}",
    "${X:-}",
    "${file:/run/secrets/x}",
    "${file:${DIR}/x}",
  ]) {
    expect(accepts({ server: { port: text, host: text, bodyLimit: text } })).toBe(true);
    expect(
      accepts({
        log: { level: text },
        retention: { events: text },
        storage: { driver: text, path: text },
      }),
    ).toBe(true);
    expect(
      accepts(
        to({
          url: text,
          allowPrivate: text,
          rate: text,
          retry: { schedule: [text], jitter: text },
        }),
      ),
    ).toBe(true);
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
  expect(knownKeys(["sources", "any"])).toEqual(
    new Set([
      ...["account", "kind", "signature", "fields", "mode", "dedupe", "to"],
      ...["format", "accounts", "verifyTokens", "header", "pathSecrets", "graph", "registerBy"],
    ]),
  );
  expect(knownKeys(["routes", 3, "to", "retry"])).toEqual(new Set(["schedule", "jitter"]));
  expect(knownKeys(["routes", 0, "match", "where", "$or", 1, "$not"])).toContain("$and");
  expect(knownKeys(["nothing", "here"])).toEqual(new Set());
});

/**
 * As strict as Ajv can be: unknown keywords and formats, and several types in one schema, throw.
 */
function strictValidator() {
  const ajv = new Ajv2020({ strict: true });
  addFormats.default(ajv);
  return ajv.compile(editorSchema());
}

test("Ajv in strict mode takes the schema with the draft that it names", () => {
  expect(editorSchema().$schema).toBe("https://json-schema.org/draft/2020-12/schema");
  const validate = strictValidator();
  for (const value of [source({}), to({ retry: { schedule: ["${WAIT}"] } })])
    expect([validate(value), validate.errors]).toEqual([true, null]);
  for (const value of [source({ mode: "ack" }), to({ rety: {} }), { server: { port: "many" } }])
    expect(validate(value)).toBe(false);
});

/** The properties of a schema, wherever they are, with their place. */
function* propertiesIn(value: unknown, at = "#"): Generator<[at: string, property: JsonSchema]> {
  if (typeof value !== "object" || value === null) return;
  const { properties } = value as JsonSchema;
  if (typeof properties === "object")
    for (const [key, property] of Object.entries(properties)) yield [`${at}/${key}`, property];
  for (const [key, part] of Object.entries(value)) {
    if (key !== "default") yield* propertiesIn(part, `${at}/${key}`);
  }
}

test("every setting has a description, which editors show", () => {
  const all = [...propertiesIn(editorSchema())];
  expect(all.length).toBeGreaterThan(150);
  // A sentence.
  expect(
    all.filter(([, { description }]) => !/^.{8,}\.$/s.test(description ?? "")).map(([at]) => at),
  ).toEqual([]);
});

/** Settings that loading fills in although the schema says nothing of a default. */
function* hiddenDefaults(
  shapes: readonly JsonSchema[],
  given: unknown,
  loaded: unknown,
  at: string,
): Generator<string> {
  if (typeof given !== "object" || given === null || typeof loaded !== "object" || loaded === null)
    return;
  for (const [key, value] of Object.entries(loaded)) {
    const own = (given as Readonly<Record<string, unknown>>)[key];
    const under = shapesUnder(shapes, Array.isArray(loaded) ? Number(key) : key);
    const fallbacks = shapes.flatMap(({ properties }) =>
      properties?.[key]?.default === undefined ? [] : [properties[key].default],
    );
    if (own === undefined && value !== undefined && fallbacks.length === 0) yield `${at}/${key}`;
    yield* hiddenDefaults(under, own ?? fallbacks[0], value, `${at}/${key}`);
  }
}

test("every default of a setting is in the schema", () => {
  const text = `
    accounts: { main: {} }
    sources:
      events: { account: main, signature: { service: acme, secrets: [a-long-enough-secret] } }
      flows: { account: main, kind: automation-request, signature: { service: acme, secrets: [a-long-enough-secret] } }
    routes:
      - { name: url, to: { url: "https://crm.example" } }
      - { name: queue, to: { queue: jobs, redis: "redis://queues.example" } }
      - { name: stream, to: { stream: log, redis: "redis://queues.example" } }
  `;
  const loaded = parseSettings(text, "relay.yaml", {});
  expect([...hiddenDefaults(shapesOf(inputSchema()), parse(text), loaded, "#")]).toEqual([]);
  expect([...hiddenDefaults([{ properties: { port: {} } }], {}, { port: 1 }, "#")]).toEqual([
    "#/port",
  ]);
});
