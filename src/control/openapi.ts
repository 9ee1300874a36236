import { z } from "zod";
import { type ErrorCode, errorCodes } from "../model/errors.ts";
import type { Answer, Endpoint } from "./endpoint.ts";

type JsonSchema = z.core.JSONSchema.BaseSchema;

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

Lists come newest first, \`limit\` at a time; \`next\` is what to give as \`before\` for the page after, and null at the end. A page may be short and still have a next one.

Unknown query parameters are refused, and so are unknown fields of a body where an endpoint takes one; \`details\` lists every fault as \`{path, message}\`. Objects in answers may get more fields.`;

/** The control API as an OpenAPI 3.1 document. */
export function describe(endpoints: Iterable<Endpoint>, version: string): object {
  const paths: Record<string, Record<string, object>> = {};
  const responses: Record<string, object> = {};
  for (const endpoint of endpoints) {
    const path = endpoint.path.replace(/:(\w+)/g, "{$1}");
    paths[path] = { ...paths[path], [endpoint.method.toLowerCase()]: operation(endpoint, responses) };
  }
  return {
    openapi: "3.1.1",
    info: { title: "wamid-relay", version, description: about },
    servers: [{ url: "/" }],
    paths,
    components: {
      securitySchemes: {
        token: {
          type: "http",
          scheme: "bearer",
          description: "A token of `control.tokens` in the settings, with the scope that is asked for.",
        },
      },
      schemas: { Error: errorSchema },
      responses,
    },
  };
}

const errorSchema = {
  type: "object",
  required: ["error", "code"],
  properties: {
    error: { type: "string", description: "For people." },
    code: { type: "string", enum: Object.keys(errorCodes), description: "For programs." },
    details: { description: "What it is about; of `bad_request` often a list of `{path, message}`." },
  },
};

/** Adds each distinct error answer to `responses` once. */
function operation(endpoint: Endpoint, responses: Record<string, object>): object {
  const { name, path, scope, summary, description, params, query, headers, body, lines } = endpoint;
  const parameters = [...parametersOf("path", params), ...parametersOf("query", query), ...parametersOf("header", headers)];
  return {
    operationId: name,
    summary,
    ...(description === undefined ? {} : { description }),
    tags: [path.split(/[/.]/)[2]],
    security: [{ token: [scope] }],
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined
      ? {}
      : {
          requestBody: {
            required: !body.safeParse(undefined).success,
            content: {
              [json]: { schema: schemaOf(body) },
              ...(lines === undefined ? {} : { [ndjson]: { schema: { type: "string", description: lines } } }),
            },
          },
        }),
    responses: { ...answersOf(endpoint), ...errorsOf(endpoint, responses) },
  };
}

function parametersOf(place: "path" | "query" | "header", schema: z.ZodObject | undefined): object[] {
  const { properties = {}, required = [] } = schema === undefined ? {} : schemaOf(schema);
  return Object.entries(properties).map(([name, given]) => {
    const { description, ...rest } = given as JsonSchema;
    return {
      name,
      in: place,
      ...(required.includes(name) ? { required: true } : {}),
      ...(description ? { description } : {}),
      schema: rest,
    };
  });
}

function answersOf({ answers, query }: Endpoint): Record<string, object> {
  return Object.fromEntries(
    Object.entries(answers).map(([status, answer]) => [status, { description: answer.text, content: contentOf(answer, query) }]),
  );
}

function contentOf({ types = [json], list, schema }: Answer, query: z.ZodObject | undefined): object {
  const described: JsonSchema = schema === undefined ? { type: "object" } : schemaOf(schema);
  if (list === undefined)
    return Object.fromEntries(types.map((type) => [type, { schema: type === json ? described : { type: "string" } }]));
  const before = query && (schemaOf(query).properties?.["before"] as JsonSchema | undefined);
  const { description: _, ...given } = before ?? {};
  const next = before === undefined ? {} : { next: { anyOf: [given, { type: "null" }] } };
  const properties = { data: { type: "array", items: { type: "object" } }, ...described.properties, ...next };
  return { [json]: { schema: { type: "object", required: ["data", ...Object.keys(next)], properties } } };
}

/** References by status; each error answer names the codes that this endpoint may answer with. */
function errorsOf({ method, body, errors = [] }: Endpoint, responses: Record<string, object>): Record<string, object> {
  const possible = new Set<ErrorCode>([
    ...always,
    ...(body === undefined ? (["unexpected_body"] as const) : []),
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
        ...(status === 429 || status === 503
          ? { headers: { "Retry-After": { description: retryAfterText(some), schema: { type: "integer" } } } }
          : {}),
        content: { [json]: { schema: { $ref: "#/components/schemas/Error", properties: { code: { enum: some } } } } },
      };
      return [status, { $ref: `#/components/responses/${name}` }];
    }),
  );
}

const retryAfterText = (codes: readonly ErrorCode[]): string =>
  codes.includes("service_quota_used_up") ? "Seconds. Not with `service_quota_used_up`: see `details.until`." : "Seconds.";

function schemaOf(schema: z.ZodType): JsonSchema {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, {
    io: "input",
    override: ({ jsonSchema }) => {
      // Zod's own format, in no registry; the pattern beside it is equivalent.
      if (jsonSchema.format === "starts_with") delete jsonSchema.format;
    },
  });
  return rest;
}
