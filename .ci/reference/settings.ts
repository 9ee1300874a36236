import { inputSchema, type JsonSchema, shapesOf } from "../../src/config/json-schema.ts";
import { restartParts } from "../../src/config/schema.ts";
import { code, linkTo, paragraphs, table } from "./markdown.ts";

interface Setting {
  readonly path: string;
  readonly type: string;
  readonly fallback: string;
  readonly meaning: string;
}

/**
 * A way to write a mapping, such as a destination that is a `url`. The label is empty when there is
 * one way only.
 */
interface Shape {
  readonly label: string;
  readonly schema: JsonSchema;
}

const destination = "routes[].to";
const isRestart = (section: string) => (restartParts as readonly string[]).includes(section);

export function settingsPage(): string {
  const sections = Object.entries(inputSchema().properties ?? {});
  const index = sections.map(([name, { description = "" }]) => [
    linkTo(name),
    description,
    isRestart(name) ? "a restart" : "a reload",
  ]);
  return paragraphs(
    "## Sections",
    table(["section", "what it sets", "a change needs"], index),
    ...sections.flatMap(([name, schema]) => [
      `## ${name}`,
      tableOf(settingsUnder(schema, name)),
      ...(name === "routes"
        ? ["### Destinations", destinations(schema), "### Conditions", conditions()]
        : []),
    ]),
  );
}

const tableOf = (settings: readonly Setting[]): string =>
  table(
    ["setting", "type", "default", "meaning"],
    settings.map(({ path, type, fallback, meaning }) => [code(path), type, fallback, meaning]),
  );

/** What stands under `to` of a route: first what every kind has, then each kind by itself. */
function destinations(routes: JsonSchema): string {
  const shapes = shapesIn((routes.items as JsonSchema).properties?.["to"] as JsonSchema);
  const all = mergedSettings(shapes, "to");
  const isCommon = ({ path }: Setting) => {
    const [, key = ""] = path.split(".");
    return shapes.every(({ schema }) => schema.properties?.[key] !== undefined);
  };
  return paragraphs(
    "Give one of `url`, `queue` and `stream`. Every kind has these settings:",
    tableOf(all.filter(isCommon)),
    ...shapes.flatMap((shape) => [
      `#### to.${shape.label}`,
      tableOf(
        mergedSettings([{ ...shape, label: "" }], "to").filter((setting) => !isCommon(setting)),
      ),
    ]),
  );
}

function conditions(): string {
  // Conditions refer to themselves, so zod gives them a name of their own; they are the only schema
  // that does.
  const [condition] = Object.values(inputSchema().$defs ?? {}) as [JsonSchema];
  const values = (condition.additionalProperties as JsonSchema).anyOf ?? [];
  const operators = Object.assign(
    {},
    ...values.map(({ properties }) => properties),
    condition.properties,
  ) as Record<string, JsonSchema>;
  return table(
    ["operator", "value", "holds when"],
    Object.entries(operators).map(([name, schema]) => [
      code(name),
      typeText(schema),
      meaningOf(schema),
    ]),
  );
}

function settingsUnder(schema: JsonSchema, path: string): Setting[] {
  if (schema.items !== undefined) return settingsUnder(schema.items, `${path}[]`);
  if (typeof schema.additionalProperties === "object" && schema.propertyNames !== undefined) {
    return settingsUnder(schema.additionalProperties, `${path}.<name>`);
  }
  return mergedSettings(shapesIn(schema), path);
}

/**
 * One row for each setting of any shape. It names the shapes that have it, unless all do, and the
 * shapes that differ.
 */
function mergedSettings(shapes: readonly Shape[], path: string): Setting[] {
  const keys = [...new Set(shapes.flatMap(({ schema }) => Object.keys(schema.properties ?? {})))];
  return keys.flatMap((key): Setting[] => {
    const having = shapes.filter(({ schema }) => schema.properties?.[key] !== undefined);
    const variants = having.map(({ label, schema }) => ({ label, ...settingOf(schema, key) }));
    const [first] = variants as [(typeof variants)[number]];
    const only =
      having.length === shapes.length
        ? ""
        : `Only ${having.map(({ label }) => code(label)).join(", ")}. `;
    // The words of a discriminator are one setting, whose default is that of the first shape.
    const isDiscriminator = having.every(
      ({ schema }) => schema.properties?.[key]?.const !== undefined,
    );
    const differing = (part: "type" | "fallback") => {
      if (isDiscriminator)
        return part === "type" ? variants.map(({ type }) => type).join(" ") : first.fallback;
      const groups = [...Map.groupBy(variants, (variant) => variant[part])];
      if (groups.length === 1) return first[part];
      return groups
        .map(([text, some]) => `${some.map(({ label }) => code(label)).join(", ")}: ${text}`)
        .join("; ");
    };
    const own = {
      path: `${path}.${key}`,
      type: differing("type"),
      fallback: differing("fallback"),
      meaning: only + first.meaning,
    };
    const below = `${path}.${key}`;
    if (below === destination || (path.startsWith("sources") && key === "to")) return [own];
    const nested = (having[0] as Shape).schema.properties?.[key] as JsonSchema;
    return [
      own,
      ...(isCondition(nested) || isScalar(nested) ? [] : nestedSettings(having, key, below)),
    ];
  });
}

/** The settings below a mapping, which may have other defaults in other shapes. */
function nestedSettings(having: readonly Shape[], key: string, path: string): Setting[] {
  const inner = having.flatMap(({ label, schema }) => {
    const nested = schema.properties?.[key] as JsonSchema;
    const [only, ...others] = shapesOf(nested).filter(({ properties }) => properties !== undefined);
    return only === undefined || others.length > 0 ? [] : [{ label, schema: only }];
  });
  if (inner.length === having.length) return mergedSettings(inner, path);
  return settingsUnder((having[0] as Shape).schema.properties?.[key] as JsonSchema, path);
}

const isCondition = ({ $ref }: JsonSchema) => $ref !== undefined;
const isScalar = (schema: JsonSchema) =>
  schema.items?.properties === undefined && !shapesOf(schema).some(({ properties }) => properties);

function shapesIn(schema: JsonSchema): Shape[] {
  const shapes = shapesOf(schema).filter(({ properties }) => properties !== undefined);
  return shapes.map((shape) => ({
    label: shapes.length === 1 ? "" : labelOf(shape),
    schema: shape,
  }));
}

function labelOf({ properties = {}, required = [] }: JsonSchema): string {
  const constant = Object.entries(properties).find(([, { const: value }]) => value !== undefined);
  if (constant !== undefined) return `${constant[0]}: ${constant[1].const}`;
  return ["url", "queue", "stream"].find((key) => required.includes(key)) ?? "";
}

function settingOf(
  { properties = {}, required = [] }: JsonSchema,
  key: string,
): Omit<Setting, "path"> {
  const schema = properties[key] as JsonSchema;
  return {
    type: typeText(schema),
    fallback: required.includes(key) ? "required" : fallbackText(schema),
    meaning: meaningOf(schema),
  };
}

/** The description, where each word that the setting takes stands as code before its colon. */
function meaningOf(schema: JsonSchema): string {
  return (schema.description ?? "").replace(/(^|[.;] )([a-z0][\w-]*): /g, "$1`$2`: ");
}

function fallbackText({ default: value }: JsonSchema): string {
  if (value === undefined || (typeof value === "object" && !Array.isArray(value))) return "";
  if (Array.isArray(value)) return code(`[${value.join(", ")}]`);
  return code(String(value));
}

function typeText(schema: JsonSchema): string {
  if (isCondition(schema)) return "condition";
  const { title, const: constant, enum: words, items, properties, additionalProperties } = schema;
  if (title !== undefined) return title === "secret" ? "*secret*" : title;
  if (constant !== undefined) return code(String(constant));
  if (words !== undefined) return words.map((word) => code(String(word))).join(" ");
  const alternatives = Array.isArray(schema.type)
    ? (schema.type as readonly string[]).map((type) => ({ type }))
    : (schema.anyOf ?? schema.oneOf);
  if (alternatives !== undefined) return [...new Set(alternatives.map(typeText))].join(" or ");
  if (items !== undefined)
    return items.properties === undefined ? `list of ${typeText(items)}` : "list";
  if (properties !== undefined || additionalProperties !== undefined) return "mapping";
  return scalarText(schema);
}

interface Bounds {
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
}

function scalarText(schema: JsonSchema & Bounds): string {
  const { type, minimum, maximum, exclusiveMinimum } = schema;
  if (type === "string") return "text";
  if (type === "boolean") return "`true` or `false`";
  if (type === "null") return "`null`";
  const word = type === "integer" ? "whole number" : "number";
  const most = maximum === undefined || maximum === Number.MAX_SAFE_INTEGER ? "" : ` to ${maximum}`;
  if (exclusiveMinimum !== undefined) return `${word}, more than ${exclusiveMinimum}${most}`;
  return minimum === undefined || minimum === Number.MIN_SAFE_INTEGER
    ? word
    : `${word}, ${most === "" ? `from ${minimum}` : `${minimum}${most}`}`;
}
