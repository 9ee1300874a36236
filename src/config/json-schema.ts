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
  const schema = z.toJSONSchema(settingsSchema, {
    io: "input",
    override: ({ jsonSchema, path }) => allowVariable(jsonSchema, path.at(-1)),
  });
  return { title: "wamid-relay settings", ...(schema as JsonSchema) };
}

function allowVariable(schema: z.core.JSONSchema.BaseSchema, key: PropertyKey | undefined): void {
  // `kind` selects the shape of a source, and a variable would match every shape.
  if (key === "kind" || key === "propertyNames") return;
  const { title, description, default: fallback, type, ...rest } = schema;
  const isText = type === "string" && Object.keys(rest).length === 0;
  if (
    isText ||
    type === undefined ||
    !["string", "number", "integer", "boolean"].includes(String(type))
  )
    return;
  for (const name of ["type", ...Object.keys(rest)]) delete schema[name];
  schema.anyOf = [
    { type, ...rest },
    { type: "string", pattern: variablePattern },
  ];
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
    return typeof shape.additionalProperties === "object"
      ? shapesOf(shape.additionalProperties)
      : [];
  });
}

export function shapesAt(path: SettingsPath): JsonSchema[] {
  return path.reduce<JsonSchema[]>(shapesUnder, shapesOf(inputSchema()));
}

export function knownKeys(path: SettingsPath): Set<string> {
  return new Set(shapesAt(path).flatMap((shape) => Object.keys(shape.properties ?? {})));
}
