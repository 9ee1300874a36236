import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { inputSchema, type JsonSchema, shapesOf } from "../../../src/config/json-schema.ts";
import { parseSettings } from "../../../src/config/load.ts";
import { whereOperators } from "../../../src/route/where.ts";
import { faultsOf } from "./faults-of.ts";

const root = new URL("../../../", import.meta.url);
const docs = readFileSync(new URL("docs/reference/settings.md", root), "utf8");

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

const settings = new Set([...settingsOf(inputSchema(), "")].map(([name]) => name));
const rows = new Set([...docs.matchAll(/^\| `([^`]+)` \| (?:.+?) \| (?:.*?) ?\| .+ \|$/gm)].map(([, name = ""]) => name));

test("the walk finds settings at every depth", () => {
  for (const name of ["server.port", "sources.<name>.signature.secrets", "routes[].match.events", "to.retry.jitter", "to.url"]) {
    expect([...settings]).toContain(name);
  }
  expect(rows.size).toBeGreaterThan(60);
});

test("every setting of the schema is in docs/reference/settings.md", () => {
  const sections = new Set(Object.keys(inputSchema().properties ?? {}));
  for (const section of sections) expect(docs).toContain(`\n## ${section}\n`);
  expect([...settings].filter((name) => !sections.has(name) && !rows.has(name))).toEqual([]);
});

test("every operator of a condition is in docs/reference/settings.md", () => {
  for (const operator of [...whereOperators, "$or", "$and", "$not"]) expect(docs).toContain(`\`${operator}\``);
});

const variables = ["MESSAGING_API_KEY", "NEW_SECRET", "OLD_SECRET", "ATS_TOKEN", "RELAY_TOKEN", "CRM_SECRET", "CRM_TOKEN"];
const blocks = [...docs.matchAll(/^```yaml\n([\s\S]*?)^```$/gm)].map(([, text]) => text as string);

test("every YAML block in docs/reference/settings.md loads", () => {
  expect(blocks.length).toBeGreaterThanOrEqual(1);
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
