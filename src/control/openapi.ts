import { readFileSync } from "node:fs";
import { z } from "zod";
import type { Answer } from "../model/endpoint.ts";
import { allEndpoints, type NamedEndpoint } from "../model/endpoints/table.ts";
import { type ErrorCode, errorCodes } from "../model/errors.ts";
import { holdsPii } from "../model/view.ts";
import { maskedHeader } from "./endpoint.ts";

type JsonSchema = z.core.JSONSchema.BaseSchema;

export interface Example {
  /** When the answer looks so; absent: always. */
  readonly when?: string;
  /** Default: the first status that the endpoint declares. */
  readonly status?: number;
  readonly request?: unknown;
  readonly answer: unknown;
}

/** By the endpoint's name: what a relay answers. `npm run generate` writes the file. */
export const examples = JSON.parse(
  readFileSync(new URL("../../docs/reference/examples.json", import.meta.url), "utf8"),
) as Readonly<Record<string, readonly Example[]>>;

const json = "application/json";
const ndjson = "application/x-ndjson";
const always: readonly ErrorCode[] = [
  "bad_request",
  "unauthorized",
  "forbidden",
  "too_many_bad_tokens",
  "request_timeout",
  "headers_too_large",
  "internal",
  "store_unavailable",
];

const about = `The control API of wamid-relay. Times are ISO 8601 in UTC.

Lists are newest first, \`limit\` rows at a time. Pass \`next\` as \`before\` to get the next page; it is null at the end. A page may be short and still have a next one.

The relay refuses unknown query parameters and unknown fields of a body; \`details\` lists every fault as \`{path, message}\`. Later versions may add fields to answers.`;

const tags: Readonly<Record<string, string>> = {
  read: "What the relay received, tracks and sends.",
  track: "Registers sent messages.",
  send: "Sends through the messaging service.",
  replay: "Sends again, repairs and reloads.",
  listen: "Live events with their bodies.",
  open: "Needs no scope.",
};

interface Components {
  readonly schemas: Record<string, object>;
  readonly responses: Record<string, object>;
}

export function describe(version: string): object {
  const paths: Record<string, Record<string, object>> = {};
  const components: Components = { schemas: { Error: errorSchema }, responses: {} };
  for (const endpoint of allEndpoints) {
    const path = endpoint.path.replace(/:(\w+)/g, "{$1}");
    paths[path] = {
      ...paths[path],
      [endpoint.method.toLowerCase()]: operation(endpoint, components),
    };
  }
  return {
    openapi: "3.1.1",
    info: {
      title: "wamid-relay",
      version,
      description: about,
      contact: { name: "The operator of this relay" },
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: "/" }],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
    paths,
    components: {
      securitySchemes: {
        token: {
          type: "http",
          scheme: "bearer",
          description:
            "A token of `control.tokens` in the settings, with the scope that the operation names in `x-scope`.",
        },
        session: {
          type: "apiKey",
          in: "cookie",
          name: "wamid-relay",
          description:
            "A session of the console, which needs the header `x-wamid-relay: console`. The name of the cookie ends with `-` and the port, where the address has one.",
        },
      },
      ...components,
    },
  };
}

const errorSchema = {
  type: "object",
  description: "Every error.",
  required: ["error", "code"],
  properties: {
    error: { type: "string", description: "What is wrong, for people." },
    code: {
      type: "string",
      enum: Object.keys(errorCodes),
      description: "What is wrong, for programs.",
    },
    details: {
      description: "Depends on the code. For `bad_request`, often a list of `{path, message}`.",
    },
  },
};

function operation(endpoint: NamedEndpoint, components: Components): object {
  const { name, scope, open, summary, description, params, query, headers, body, lines, answers } =
    endpoint;
  const shown = examples[name] ?? [];
  const [firstStatus] = Object.keys(answers);
  const schemaOf = (schema: z.ZodType) => jsonSchemaOf(schema, components);
  const parameters = Object.entries({ path: params, query, header: headers }).flatMap(
    ([place, schema]) => (schema === undefined ? [] : parametersOf(place, schemaOf(schema))),
  );
  return {
    operationId: name,
    summary,
    description: `${description ?? `${summary}.`}${scope === null ? "" : `\n\nScope: \`${scope}\`.`}`,
    tags: [scope ?? "open"],
    security: open === true ? [] : [{ token: [] }, { session: [] }],
    // Of the schemes of `security`, only OAuth lists scopes.
    ...(scope === null ? {} : { "x-scope": scope }),
    "x-accounts": endpoint.accounts,
    parameters,
    ...(body && {
      requestBody: {
        required: !body.safeParse(undefined).success,
        content: {
          [json]: { schema: schemaOf(body), ...examplesOf(shown, "request") },
          ...(lines && { [ndjson]: { schema: { type: "string", description: lines } } }),
        },
      },
    }),
    responses: {
      ...errorsOf(endpoint, components.responses),
      ...Object.fromEntries(
        Object.entries(answers).map(([status, answer]) => {
          const ofStatus = shown.filter(
            (example) => String(example.status ?? firstStatus) === status,
          );
          const isPersonal = answer.schema !== undefined && holdsPii(answer.schema);
          const headers = headersOf({ ...answer.headers, ...(isPersonal && maskedText) });
          const description = answer.text ?? answer.schema?.description;
          return [status, { description, headers, content: contentOf(answer, schemaOf, ofStatus) }];
        }),
      ),
    },
  };
}

function parametersOf(place: string, { properties = {}, required = [] }: JsonSchema): object[] {
  return Object.entries(properties).map(([name, given]) => {
    const { description, ...schema } = given as JsonSchema;
    return { name, in: place, required: required.includes(name), description, schema };
  });
}

function examplesOf(shown: readonly Example[], part: "request" | "answer"): object {
  const named = shown.flatMap(({ when, [part]: value }, index) =>
    value === undefined ? [] : [[`example-${index + 1}`, { summary: when, value }]],
  );
  return named.length === 0 ? {} : { examples: Object.fromEntries(named) };
}

const maskedText = { [maskedHeader]: "`true` when personal data is masked." };

function headersOf(headers: Readonly<Record<string, string>>): object {
  return Object.fromEntries(
    Object.entries(headers).map(([name, description]) => [
      name,
      { description, schema: { type: name === "Retry-After" ? "integer" : "string" } },
    ]),
  );
}

function contentOf(
  { types = [json], schema, line }: Answer,
  schemaOf: (schema: z.ZodType) => JsonSchema,
  shown: readonly Example[],
): object {
  const described: Readonly<Record<string, z.ZodType | undefined>> = {
    [json]: schema,
    [ndjson]: line,
  };
  const contentOfType = (type: string) => ({
    schema: described[type] ? schemaOf(described[type]) : { type: "string" },
    ...(type === json && examplesOf(shown, "answer")),
  });
  return Object.fromEntries(types.map((type) => [type, contentOfType(type)]));
}

const retryAfter = {
  "Retry-After": "Seconds. `service_quota_used_up` has `details.until` instead.",
};
const errorHeaders: Readonly<Record<number, Readonly<Record<string, string>>>> = {
  401: { "WWW-Authenticate": "The scheme of the token: `Bearer`." },
  429: retryAfter,
  503: retryAfter,
};

/** References by status; each error answer names the codes that this endpoint may answer with. */
function errorsOf(
  { method, body, errors = [] }: NamedEndpoint,
  responses: Record<string, object>,
): Record<string, object> {
  const possible = new Set<ErrorCode>([
    ...always,
    body === undefined ? "unexpected_body" : "unsupported_media_type",
    ...(method === "POST" ? (["too_large"] as const) : []),
    ...errors,
  ]);
  // In the registry's order, so that the same codes share one answer.
  const codes = (Object.keys(errorCodes) as ErrorCode[]).filter((code) => possible.has(code));
  const byStatus = Map.groupBy(codes, (code) => errorCodes[code].status);
  return Object.fromEntries(
    [...byStatus].map(([status, some]) => {
      const name = some.join("-");
      responses[name] = {
        description: some.map((code) => `\`${code}\`: ${errorCodes[code].meaning}`).join("\n\n"),
        headers: headersOf(errorHeaders[status] ?? {}),
        content: {
          [json]: {
            schema: {
              allOf: [
                { $ref: "#/components/schemas/Error" },
                { type: "object", properties: { code: { type: "string", enum: some } } },
              ],
            },
          },
        },
      };
      return [status, { $ref: `#/components/responses/${name}` }];
    }),
  );
}

/**
 * The JSON Schema of a request or an answer. Schemas with an `id` go to `components`, where it
 * refers to them.
 */
function jsonSchemaOf(schema: z.ZodType, { schemas }: Components): JsonSchema {
  const whole = z.toJSONSchema(schema, {
    // Programs must accept additional fields in answers; strict objects refuse them in requests.
    io: "input",
    override: ({ jsonSchema }) => {
      // Zod's own format, in no registry; the pattern beside it is equivalent.
      if (jsonSchema.format === "starts_with") delete jsonSchema.format;
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
    },
  });
  const { $schema, $defs, ...rest } = JSON.parse(
    JSON.stringify(whole).replaceAll('"$ref":"#/$defs/', '"$ref":"#/components/schemas/'),
  ) as JsonSchema;
  Object.assign(schemas, $defs);
  return rest;
}
