import { z } from "zod";
import type { SettingsPath } from "./fault.ts";
import { settingsSchema } from "./schema.ts";

export interface JsonSchema {
  readonly $schema?: string;
  readonly $ref?: string;
  readonly $defs?: Readonly<Record<string, JsonSchema>>;
  readonly title?: string;
  readonly description?: string;
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly default?: unknown;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly propertyNames?: JsonSchema;
  readonly additionalProperties?: JsonSchema | boolean;
  readonly items?: JsonSchema;
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
}

let cached: JsonSchema | undefined;

/** The schema of a settings file, before `${…}` is filled in; made on first use. */
export function inputSchema(): JsonSchema {
  cached ??= z.toJSONSchema(settingsSchema, { io: "input" }) as JsonSchema;
  return cached;
}

const variablePattern = "\\$\\{([A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?|file:[^-}][^}]*)\\}";

/** The schema for editors: {@link inputSchema}, where every scalar may also contain `${…}`. */
export function editorSchema(): JsonSchema {
  return { title: "wamid-relay settings", ...withVariables(inputSchema()) };
}

/** `kind` takes no variable: it selects the shape of a source, and a variable would match every shape. */
function withVariables(schema: JsonSchema): JsonSchema {
  const { $defs, properties, additionalProperties, items, anyOf, oneOf, ...rest } = schema;
  // Strict validators refuse several types in one schema. Each of ours includes text, and so `${…}`.
  if (Array.isArray(rest.type)) {
    const { type, ...others } = rest;
    return { ...others, anyOf: (type as readonly string[]).map((each) => ({ type: each })) };
  }
  if (properties === undefined && items === undefined && anyOf === undefined && oneOf === undefined && isConstrainedScalar(schema)) {
    const { default: fallback, title, description, ...constraints } = rest;
    return {
      ...(title === undefined ? {} : { title }),
      ...(description === undefined ? {} : { description }),
      ...(fallback === undefined ? {} : { default: fallback }),
      anyOf: [constraints, { type: "string", pattern: variablePattern } as JsonSchema],
    };
  }
  return {
    ...rest,
    ...(properties && { properties: mapValues(properties, (part, key) => (key === "kind" ? part : withVariables(part))) }),
    ...(additionalProperties !== undefined && {
      additionalProperties: typeof additionalProperties === "boolean" ? additionalProperties : withVariables(additionalProperties),
    }),
    ...(items && { items: withVariables(items) }),
    ...(anyOf && { anyOf: anyOf.map(withVariables) }),
    ...(oneOf && { oneOf: oneOf.map(withVariables) }),
    ...($defs && { $defs: mapValues($defs, withVariables) }),
  };
}

/** True for a scalar that would refuse `${…}`. */
function isConstrainedScalar(schema: JsonSchema): boolean {
  if (schema.$ref !== undefined || schema.type === undefined) return false;
  if (schema.type === "string") return Object.keys(schema).some((key) => !["type", "title", "description", "default"].includes(key));
  return schema.type === "number" || schema.type === "integer" || schema.type === "boolean";
}

function mapValues<A, B>(object: Readonly<Record<string, A>>, change: (value: A, key: string) => B): Record<string, B> {
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, change(value, key)]));
}

export function shapesOf(schema: JsonSchema): JsonSchema[] {
  if (schema.$ref !== undefined) {
    const target = inputSchema().$defs?.[schema.$ref.slice("#/$defs/".length)];
    return target === undefined ? [] : shapesOf(target);
  }
  const alternatives = schema.anyOf ?? schema.oneOf;
  return alternatives === undefined ? [schema] : alternatives.flatMap(shapesOf);
}

/** The shapes of the value under `key` in any of `shapes`. */
export function shapesUnder(shapes: readonly JsonSchema[], key: PropertyKey): JsonSchema[] {
  return shapes.flatMap((shape) => {
    if (typeof key === "number") return shape.items === undefined ? [] : shapesOf(shape.items);
    const own = shape.properties?.[String(key)];
    if (own !== undefined) return shapesOf(own);
    return typeof shape.additionalProperties === "object" ? shapesOf(shape.additionalProperties) : [];
  });
}

export function shapesAt(path: SettingsPath): JsonSchema[] {
  return path.reduce<JsonSchema[]>(shapesUnder, shapesOf(inputSchema()));
}

export function knownKeys(path: SettingsPath): Set<string> {
  return new Set(shapesAt(path).flatMap((shape) => Object.keys(shape.properties ?? {})));
}
