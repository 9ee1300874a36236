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
  readonly pattern?: string;
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

function withVariables(schema: JsonSchema): JsonSchema {
  const { title, description, default: fallback, type, ...rest } = schema;
  // Strict validators refuse several types in one schema. Each of ours includes text, and so `${…}`.
  if (Array.isArray(type)) {
    const { type: _, ...others } = schema;
    return { ...others, anyOf: type.map((each: string) => ({ type: each })) };
  }
  const isText = type === "string" && Object.keys(rest).length === 0;
  if (isText || !["string", "number", "integer", "boolean"].includes(type as string)) return mapSchemas(schema, withVariables);
  const about = Object.entries({ title, description, default: fallback }).filter(([, value]) => value !== undefined);
  return { ...Object.fromEntries(about), anyOf: [{ type, ...rest } as JsonSchema, { type: "string", pattern: variablePattern }] };
}

function mapSchemas(schema: JsonSchema, change: (part: JsonSchema) => JsonSchema): JsonSchema {
  const changeAll = (parts: object): object =>
    // `kind` takes no variable: it selects the shape of a source, and a variable would match every shape.
    Object.fromEntries(Object.entries(parts).map(([name, part]) => [name, name === "kind" ? part : change(part)]));
  const changed = Object.entries(schema).map(([key, value]: [string, unknown]) => {
    if (key === "properties" || key === "$defs") return [key, changeAll(value as object)];
    if (key === "anyOf" || key === "oneOf") return [key, (value as JsonSchema[]).map(change)];
    const isPart = (key === "items" || key === "additionalProperties") && typeof value === "object";
    return [key, isPart ? change(value as JsonSchema) : value];
  });
  return Object.fromEntries(changed);
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
