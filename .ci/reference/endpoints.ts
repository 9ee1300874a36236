import { describe, examples } from "../../src/control/openapi.ts";
import { block, code, linkTo, paragraphs, pretty, table } from "./markdown.ts";

/** What OpenAPI and JSON Schema have of what `describe` writes. */
interface Schema {
  readonly $ref?: string;
  readonly description?: string;
  readonly type?: string | readonly string[];
  readonly title?: string;
  readonly format?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly default?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly additionalProperties?: boolean | Schema;
}

interface Content {
  readonly content?: Readonly<Record<string, { readonly schema: Schema }>>;
}

/** What a token that is limited to accounts gets. */
const limitedText = { narrowed: "its accounts", whole: "403", none: "everything" } as const;

interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly description: string;
  readonly "x-scope"?: string;
  readonly "x-accounts": keyof typeof limitedText;
  readonly parameters?: readonly {
    readonly name: string;
    readonly in: string;
    readonly required?: true;
    readonly description: string;
    readonly schema: Schema;
  }[];
  readonly requestBody?: Content;
  readonly responses: Readonly<
    Record<string, Content & { readonly description?: string; readonly $ref?: string }>
  >;
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

interface Described {
  readonly heading: string;
  readonly operation: Operation;
}

const json = "application/json";
/** A list of words with more is the list of error codes. */
const mostWords = 20;
/** Every endpoint may answer with these; the page says so once. */
const common =
  /^(bad_request|unauthorized|forbidden|too_many_bad_tokens|request_timeout|headers_too_large|internal|store_unavailable|unexpected_body|too_large|unsupported_media_type)$/;

export async function endpointsPage(): Promise<string> {
  const { paths, components } = describe("") as Document;
  const all = Object.entries(paths)
    .flatMap(([path, operations]) =>
      Object.entries(operations).map(([method, operation]) => ({
        heading: `${method.toUpperCase()} ${path}`,
        path,
        operation,
      })),
    )
    .toSorted((a, b) => a.path.localeCompare(b.path));
  const { Error: _, ...schemas } = components.schemas;
  const objects = Object.entries(schemas).toSorted(([a], [b]) => a.localeCompare(b));
  return paragraphs(
    "## Endpoints of the control API",
    table(
      ["endpoint", "scope", "purpose"],
      all.map(({ heading, operation }) => [
        linkTo(heading),
        code(operation["x-scope"] ?? ""),
        operation.summary,
      ]),
    ),
    ...all.map(section),
    "## Objects",
    "The JSON of requests and answers. A field may be null where its type says so. Later versions may add fields.",
    table(
      ["object", "meaning"],
      objects.map(([name, { description = "" }]) => [linkTo(name), description]),
    ),
    ...objects.map(object),
  );
}

function section({ heading, operation }: Described): string {
  const { operationId, summary, description, requestBody, responses } = operation;
  const text = description.replace(/\n*Scope: `\w+`\.$/, "");
  const shown = examples[operationId] ?? [];
  return paragraphs(
    `### ${heading}`,
    table(
      ["scope", "limited token", "operation", "purpose"],
      [
        [
          code(operation["x-scope"] ?? "none"),
          limitedText[operation["x-accounts"]],
          code(operationId),
          summary,
        ],
      ],
    ),
    text === `${summary}.` ? "" : text,
    parameters(operation),
    body(requestBody),
    table(["answer", "JSON", "meaning"], [...answers(responses), ...errors(responses)]),
    ...shown.flatMap(({ when = "", request, answer }) => [
      when,
      request === undefined ? "" : block("json", pretty(request)),
      block("json", pretty(answer)),
    ]),
  );
}

const parameters = ({ parameters: given = [] }: Operation): string =>
  table(
    ["parameter", "in", "type", "default", "meaning"],
    given.map(({ name, in: place, required, description, schema }) => [
      code(name),
      place,
      typeText(schema),
      required === true ? "required" : fallback(schema),
      name === "reveal" ? "Shows clear values: [personal data](#personal-data)." : description,
    ]),
  );

function body(request: Content | undefined): string {
  const schema = request?.content?.[json]?.schema;
  if (schema === undefined) return "";
  const [one] = schema.anyOf?.filter(({ properties }) => properties !== undefined) ?? [schema];
  const shapes = schema.anyOf?.filter(({ properties }) => properties !== undefined) ?? [];
  const rows = shapes.length > 1 ? shapes.flatMap((shape) => fields(shape)) : fields(one as Schema);
  return table(["body field", "type", "default", "meaning"], rows);
}

function fields({ properties = {}, required = [] }: Schema, prefix = ""): string[][] {
  return Object.entries(properties).flatMap(([name, schema]) => [
    [
      code(prefix + name),
      typeText(schema),
      required.includes(name) ? "required" : fallback(schema),
      firstParagraph(schema),
    ],
    ...fields(schema, `${prefix}${name}.`),
  ]);
}

const answers = (responses: Operation["responses"]): string[][] =>
  Object.entries(responses).flatMap(([status, { description, content = {} }]) =>
    description === undefined
      ? []
      : [
          [
            status,
            Object.entries(content)
              .map(([type, { schema }]) => (type === json ? typeText(schema) : code(type)))
              .join(", "),
            description,
          ],
        ],
  );

function errors(responses: Operation["responses"]): string[][] {
  return Object.entries(responses).flatMap(([status, { $ref = "" }]) => {
    const codes = ($ref.split("/").at(-1) ?? "")
      .split("-")
      .filter((name) => name !== "" && !common.test(name));
    return codes.length === 0 ? [] : [[status, "[error](errors.md)", codes.map(code).join(", ")]];
  });
}

function object([name, schema]: readonly [string, Schema]): string {
  const rows = objectFields(schema);
  // A field's table stands below that of its object.
  const notes = Object.entries(schema.properties ?? {}).flatMap(([field, { description = "" }]) => {
    const [, ...more] = description.split("\n\n");
    return more.length === 0 ? [] : [`${code(field)}:`, ...more];
  });
  return paragraphs(`### ${name}`, table(["field", "type", "meaning"], rows), ...notes);
}

function objectFields({ properties = {}, required = [] }: Schema, prefix = ""): string[][] {
  return Object.entries(properties).flatMap(([name, schema]) => {
    const optional = required.includes(name) ? "" : ", may be absent";
    const [inner = schema] = schema.items?.properties === undefined ? [schema] : [schema.items];
    const below = inner === schema ? `${prefix}${name}.` : `${prefix}${name}[].`;
    return [
      [code(prefix + name), typeText(schema) + optional, firstParagraph(schema)],
      ...objectFields(inner, below),
    ];
  });
}

const firstParagraph = ({ description = "" }: Schema): string => description.split("\n\n")[0] ?? "";

function fallback({ default: value }: Schema): string {
  return value === undefined ? "" : code(JSON.stringify(value));
}

function typeText(schema: Schema): string {
  const {
    $ref,
    type,
    title,
    format,
    const: constant,
    enum: words,
    items,
    anyOf,
    properties,
    additionalProperties,
  } = schema;
  if ($ref !== undefined) return linkTo($ref.split("/").at(-1) ?? "");
  if (title === "duration") return "duration";
  if (format === "date-time") return "time";
  if (constant !== undefined) return code(String(constant));
  if (words !== undefined && words.length > mostWords) return "a [code](errors.md)";
  if (words !== undefined) return words.map((word) => code(String(word))).join(" ");
  if (anyOf !== undefined) return [...new Set(anyOf.map(typeText))].join(" or ");
  if (items !== undefined)
    return `list of ${items.properties === undefined ? typeText(items) : "objects"}`;
  if (properties !== undefined) return "object";
  if (typeof additionalProperties === "object") return "mapping";
  if (Array.isArray(type))
    return type.map((each) => typeText({ ...schema, type: each as string })).join(" or ");
  return scalarText(schema);
}

function scalarText({ type, minimum, maximum, minLength = 0, maxLength }: Schema): string {
  if (type === "string")
    return maxLength === undefined ? "text" : `text, ${minLength} to ${maxLength} characters`;
  if (type === "boolean") return "`true` or `false`";
  if (type === "null") return "null";
  if (type !== "integer" && type !== "number") return "JSON";
  const word = type === "integer" ? "whole number" : "number";
  return maximum === undefined ? word : `${word}, ${minimum ?? 0} to ${maximum}`;
}
