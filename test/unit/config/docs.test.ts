import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { inputSchema, type JsonSchema, shapesOf } from "../../../src/config/json-schema.ts";
import { parseSettings } from "../../../src/config/load.ts";
import { whereOperators } from "../../../src/route/settings.ts";
import { faultsOf } from "./faults-of.ts";

const root = new URL("../../../", import.meta.url);
const docs = readFileSync(new URL("docs/settings.md", root), "utf8");

/** Settings by the name that the page gives them: what stands under a `to` is documented once, as `to.…`. */
function* settingsOf(schema: JsonSchema, path: string): Generator<[string, JsonSchema]> {
  // Conditions go on without end; their operators are looked at below.
  if (/\.(where|metadata|headers)$/.test(path)) return;
  for (const shape of shapesOf(schema)) {
    for (const [key, value] of Object.entries(shape.properties ?? {})) {
      const name = path === "" ? key : `${path}.${key}`;
      yield [name, value];
      yield* settingsOf(value, name.endsWith("].to") || name.endsWith(">.to") ? "to" : name);
    }
    if (typeof shape.additionalProperties === "object") yield* settingsOf(shape.additionalProperties, `${path}.<name>`);
    if (shape.items !== undefined) yield* settingsOf(shape.items, `${path}[]`);
  }
}

/** By name, the shapes it has: a `to` of a queue may have another default than that of a URL. */
const settings = new Map<string, JsonSchema[]>();
for (const [name, schema] of settingsOf(inputSchema(), "")) settings.set(name, [...(settings.get(name) ?? []), schema]);
const rows = new Map(
  [...docs.matchAll(/^\| `([^`]+)` \| (.+?) \| (.+?) \| (.+?) \|$/gm)].map(([, name, type, fallback, meaning]) => [
    name,
    { type, fallback, meaning },
  ]),
);

test("the walk finds settings at every depth", () => {
  for (const name of ["server.port", "sources.<name>.signature.secrets", "routes[].match.events", "to.retry.jitter", "to.url"]) {
    expect([...settings.keys()]).toContain(name);
  }
  expect(rows.size).toBeGreaterThan(60);
});

test("every setting of the schema is in docs/settings.md", () => {
  const sections = new Set(Object.keys(inputSchema().properties ?? {}));
  for (const section of sections) expect(docs).toContain(`## \`${section}\``);
  expect([...settings.keys()].filter((name) => !sections.has(name) && !rows.has(name))).toEqual([]);
});

test("docs/settings.md has no setting that the schema lacks", () => {
  expect([...rows.keys()].filter((name) => !settings.has(name as string))).toEqual([]);
});

test("the defaults and choices in docs/settings.md are those of the schema", () => {
  for (const [name, { type, fallback }] of rows) {
    const shapes = settings.get(name as string) ?? [];
    const values = new Set(shapes.map((schema) => schema.default).filter((value) => value !== undefined && typeof value !== "object"));
    const [only] = values;
    if (values.size === 1) expect(`${name} ${fallback}`).toBe(`${name} \`${only}\``);
    for (const value of values) expect(`${name} ${fallback}`).toContain(`\`${value}\``);
    const choices = shapes.flatMap((schema) => schema.enum ?? schema.items?.enum ?? []);
    for (const choice of choices) expect(`${name} ${type}`).toContain(`\`${choice}\``);
  }
});

test("every operator of a condition is in docs/settings.md", () => {
  for (const operator of [...whereOperators, "$or", "$and", "$not"]) expect(docs).toContain(`\`${operator}\``);
});

const variables = ["ORDERS_TOKEN", "SHOP_SECRET", "NEW_SECRET", "OLD_SECRET", "WEBHOOK_SECRET", "ATS_TOKEN", "CRM_SECRET"];
const blocks = [...docs.matchAll(/^```yaml\n([\s\S]*?)^```$/gm)].map(([, text]) => text as string);

test("every YAML block in docs/settings.md loads", () => {
  expect(blocks.length).toBeGreaterThanOrEqual(3);
  const env = { ...Object.fromEntries(variables.map((name) => [name, `${name}-of-the-test`])), REDIS_URL: "redis://:pass@redis" };
  for (const block of blocks) expect(faultsOf(block, env)).toEqual([]);
});

test("config/relay.yaml loads with its two variables, and needs each of them", () => {
  const text = readFileSync(new URL("config/relay.yaml", root), "utf8");
  const env = { WEBHOOK_SECRET: "w", RELAY_TOKEN: "0123456789abcdef" };
  const loaded = parseSettings(text, "config/relay.yaml", env);
  expect([Object.keys(loaded.sources), loaded.routes.map(({ name }) => name)]).toEqual([["main"], []]);
  expect(parseSettings(text, "config/relay.yaml", { ...env, PORT: "9000" }).server.port).toBe(9000);
  for (const name of Object.keys(env)) {
    expect(faultsOf(text, { ...env, [name]: undefined })).toEqual([expect.stringContaining(`needs the environment variable ${name}`)]);
  }
  expect(text.split("\n", 1)[0]).toBe("# yaml-language-server: $schema=./relay.schema.json");
});

test("the commented-out parts of config/relay.yaml load too", () => {
  const text = readFileSync(new URL("config/relay.yaml", root), "utf8");
  const env = { WEBHOOK_SECRET: "w", RELAY_TOKEN: "0123456789abcdef", CRM_SECRET: "c", ATS_TOKEN: "a", MESSAGING_API_KEY: "k" };
  // Lines that are settings, and not sentences: `# key: …` and `# - key: …`, at any depth.
  const opened = text.replace(/^( *)# ( *(?:- )?[a-zA-Z]+:(?: [^ ].*)?)$/gm, "$1$2");
  const loaded = parseSettings(opened, "opened", env);
  expect(Object.keys(loaded.sources)).toEqual(["main", "flows"]);
  expect(loaded.routes.map(({ name }) => name)).toEqual(["everything-to-archive", "failures-to-crm"]);
  expect(loaded.accounts["main"]?.apiKey?.reveal()).toBe("k");
  expect(loaded.server.trustProxy).toEqual(["loopback", "10.0.0.0/8"]);
});
