import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import type { OpenApi } from "./openapi-document.ts";

/** JSON Schema, as the API's description uses it. */
export interface Schema {
  readonly [keyword: string]: unknown;
}

/** In strict mode: an unknown keyword or format throws. */
const ajv = new Ajv2020({ strict: true, allowUnionTypes: true, strictRequired: false });
addFormats.default(ajv);
// So that references into the document resolve.
ajv.addVocabulary(["components", "x-pii"]);
const compiled = new WeakMap<Schema, ValidateFunction>();

/** Whether a schema of the document allows a value. */
export function allows(
  { components }: Pick<OpenApi, "components">,
  schema: Schema,
  value: unknown,
): boolean {
  const validate =
    compiled.get(schema) ?? ajv.compile({ ...schema, components: { schemas: components.schemas } });
  compiled.set(schema, validate);
  return validate(value);
}
