/** JSON Schema, as far as the API's description uses it. */
export interface Schema {
  readonly [keyword: string]: unknown;
}

const types: Readonly<Record<string, (value: unknown) => boolean>> = {
  string: (value) => typeof value === "string",
  boolean: (value) => typeof value === "boolean",
  number: (value) => typeof value === "number",
  integer: (value) => Number.isInteger(value),
  null: (value) => value === null,
  array: Array.isArray,
  object: isObject,
};
const words = new Set(["title", "description", "default", "format"]);

/**
 * Whether a schema allows a value. Written anew from the JSON Schema specification (2020-12), so that a description is held
 * to what programs will read in it. Throws at a keyword it does not know: then either of the two is wrong.
 */
export function allows(schema: Schema, value: unknown): boolean {
  return Object.entries(schema).every(([keyword, rule]) => words.has(keyword) || keeps(schema, keyword, rule, value));
}

function keeps(schema: Schema, keyword: string, rule: unknown, value: unknown): boolean {
  const schemas = rule as readonly Schema[];
  const most = rule as number;
  switch (keyword) {
    case "type":
      return typeOf(rule)(value);
    case "enum":
      return (rule as readonly unknown[]).includes(value);
    case "anyOf":
      return schemas.some((one) => allows(one, value));
    case "oneOf":
      return schemas.filter((one) => allows(one, value)).length === 1;
    case "minimum":
      return typeof value !== "number" || value >= most;
    case "maximum":
      return typeof value !== "number" || value <= most;
    case "minLength":
      return typeof value !== "string" || [...value].length >= most;
    case "maxLength":
      return typeof value !== "string" || [...value].length <= most;
    case "pattern":
      return typeof value !== "string" || new RegExp(rule as string, "u").test(value);
    case "minItems":
      return !Array.isArray(value) || value.length >= most;
    case "maxItems":
      return !Array.isArray(value) || value.length <= most;
    case "items":
      return !Array.isArray(value) || value.every((item) => allows(rule as Schema, item));
    case "required":
      return !isObject(value) || (rule as readonly string[]).every((key) => key in value);
    case "properties":
      return (
        !isObject(value) || Object.entries(rule as Record<string, Schema>).every(([key, of]) => !(key in value) || allows(of, value[key]))
      );
    case "propertyNames":
      return !isObject(value) || Object.keys(value).every((key) => allows(rule as Schema, key));
    case "additionalProperties": {
      if (!isObject(value)) return true;
      const others = Object.keys(value).filter((key) => !(key in ((schema["properties"] ?? {}) as object)));
      return rule === false ? others.length === 0 : others.every((key) => allows(rule as Schema, value[key]));
    }
    default:
      throw new Error(`a schema has the keyword ${keyword}, which is not known here`);
  }
}

function typeOf(name: unknown): (value: unknown) => boolean {
  if (Array.isArray(name)) {
    const checks = name.map(typeOf);
    return (value) => checks.some((check) => check(value));
  }
  const check = types[name as string];
  if (check === undefined) throw new Error(`a schema has the type ${JSON.stringify(name)}`);
  return check;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
