import { readFileSync } from "node:fs";
import { z } from "zod";
import type { Answer } from "../model/endpoint.ts";
import type { NamedEndpoint } from "../model/endpoints/table.ts";
import { type ErrorCode, errorCodes } from "../model/errors.ts";
import { holdsPii } from "../model/view.ts";
import { maskedHeader } from "./endpoint.ts";

type JsonSchema = z.core.JSONSchema.BaseSchema;

interface Example {
  /** When the answer looks so; absent: always. */
  readonly when?: string;
  /** Default: the first status that the endpoint declares. */
  readonly status?: number;
  readonly request?: unknown;
  readonly answer: unknown;
}

/** By the endpoint's name. test/integration/http/endpoints-doc.test.ts compares each with the answer of a relay. */
export const examples = JSON.parse(readFileSync(new URL("../../docs/reference/examples.json", import.meta.url), "utf8")) as Readonly<
  Record<string, readonly Example[]>
>;

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
  accounts: "Accounts of the messaging service.",
  audit: "Whether everything received is accounted for.",
  automations: "Runs of automations.",
  deliveries: "Deliveries and their retries.",
  events: "Received events.",
  explain: "The whole story of one event, message or run.",
  health: "Whether the process works.",
  instance: "The process that answers.",
  listen: "Live events with their bodies, for `wamid-relay listen`.",
  listeners: "Who listens, and the stored cursors.",
  live: "The overview and new events as they change.",
  messages: "Sent and tracked messages.",
  openapi: "This description.",
  overview: "What needs action, the figures and the destinations.",
  quality: "How many messages arrive, what fails, and why.",
  reconcile: "Polls for statuses that webhooks lost.",
  reload: "Reloads of the settings.",
  replay: "Sending again what was settled.",
  routes: "Routes and their destinations.",
  runs: "Tracked automation runs.",
  search: "One search over everything.",
  secrets: "Usage of the webhook secrets.",
  sources: "The inbound endpoints of the settings.",
  series: "Counts, percentiles and gauges over time.",
  session: "Sessions of the console.",
  settings: "The settings in effect.",
  stats: "The sums.",
};

interface Components {
  readonly schemas: Record<string, object>;
  readonly responses: Record<string, object>;
}

export function describe(endpoints: Iterable<NamedEndpoint>, version: string): object {
  const paths: Record<string, Record<string, object>> = {};
  const components: Components = { schemas: { Error: errorSchema }, responses: {} };
  const used = new Set<string>();
  for (const endpoint of endpoints) {
    const path = endpoint.path.replace(/:(\w+)/g, "{$1}");
    paths[path] = { ...paths[path], [endpoint.method.toLowerCase()]: operation(endpoint, components) };
    used.add(tagOf(endpoint));
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
    tags: [...used].sort().map((name) => ({ name, description: tags[name] })),
    paths,
    components: {
      securitySchemes: {
        token: {
          type: "http",
          scheme: "bearer",
          description: "A token of `control.tokens` in the settings, with the scope that the operation names in `x-scope`.",
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

function tagOf({ path }: NamedEndpoint): string {
  return path.startsWith("/v1/") ? (path.split(/[/.]/)[2] as string) : "health";
}

const errorSchema = {
  type: "object",
  description: "Every error.",
  required: ["error", "code"],
  properties: {
    error: { type: "string", description: "What is wrong, for people." },
    code: { type: "string", enum: Object.keys(errorCodes), description: "What is wrong, for programs." },
    details: { description: "Depends on the code. For `bad_request`, often a list of `{path, message}`." },
  },
};

function operation(endpoint: NamedEndpoint, components: Components): object {
  const { name, scope, open, summary, description, params, query, headers, body, lines, answers } = endpoint;
  const shown = examples[name] ?? [];
  const [firstStatus] = Object.keys(answers);
  const schemaOf = (schema: z.ZodType) => jsonSchemaOf(schema, components);
  const parameters = Object.entries({ path: params, query, header: headers }).flatMap(([place, schema]) =>
    schema === undefined ? [] : parametersOf(place, schemaOf(schema)),
  );
  return {
    operationId: name,
    summary,
    description: `${description ?? `${summary}.`}${scope === null ? "" : `\n\nScope: \`${scope}\`.`}`,
    tags: [tagOf(endpoint)],
    security: open === true ? [] : [{ token: [] }, { session: [] }],
    // Of the schemes of `security`, only OAuth lists scopes.
    ...(scope === null ? {} : { "x-scope": scope }),
    "x-accounts": endpoint.accounts,
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined
      ? {}
      : {
          requestBody: {
            required: !body.safeParse(undefined).success,
            content: {
              [json]: { schema: schemaOf(body), ...examplesOf(shown, ({ request }) => request) },
              ...(lines === undefined ? {} : { [ndjson]: { schema: { type: "string", description: lines } } }),
            },
          },
        }),
    responses: {
      ...errorsOf(endpoint, components.responses),
      ...Object.fromEntries(
        Object.entries(answers).map(([status, answer]) => {
          const ofStatus = shown.filter((example) => String(example.status ?? firstStatus) === status);
          const isPersonal = answer.schema !== undefined && holdsPii(answer.schema);
          const headers = headersOf({ ...answer.headers, ...(isPersonal ? maskedText : {}) });
          return [status, { description: answer.text, ...headers, content: contentOf(answer, schemaOf, ofStatus) }];
        }),
      ),
    },
  };
}

function parametersOf(place: string, { properties = {}, required = [] }: JsonSchema): object[] {
  return Object.entries(properties).map(([name, given]) => {
    const { description, ...schema } = given as JsonSchema;
    return {
      name,
      in: place,
      ...(required.includes(name) ? { required: true } : {}),
      ...(description ? { description } : {}),
      schema,
    };
  });
}

function examplesOf(shown: readonly Example[], part: (example: Example) => unknown): object {
  const named = shown.flatMap((example, index) => {
    const value = part(example);
    const { when } = example;
    return value === undefined ? [] : [[`example-${index + 1}`, { ...(when === undefined ? {} : { summary: when }), value }]];
  });
  return named.length === 0 ? {} : { examples: Object.fromEntries(named) };
}

const maskedText = { [maskedHeader]: "`true` when personal data is masked." };

function headersOf(headers: Readonly<Record<string, string>>): object {
  const described = Object.entries(headers).map(([name, description]) => [name, { description, schema: { type: "string" } }]);
  return described.length === 0 ? {} : { headers: Object.fromEntries(described) };
}

function contentOf(
  { types = [json], schema, line }: Answer,
  schemaOf: (schema: z.ZodType) => JsonSchema,
  shown: readonly Example[],
): object {
  const contentOfType = (type: string) => {
    const described = type === json ? schema : type === ndjson ? line : undefined;
    const streamed = { type: "string" };
    return {
      schema: described === undefined ? streamed : schemaOf(described),
      ...(type === json ? examplesOf(shown, ({ answer }) => answer) : {}),
    };
  };
  return Object.fromEntries(types.map((type) => [type, contentOfType(type)]));
}

/** References by status; each error answer names the codes that this endpoint may answer with. */
function errorsOf({ method, body, errors = [] }: NamedEndpoint, responses: Record<string, object>): Record<string, object> {
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
        ...(status === 429 || status === 503
          ? { headers: { "Retry-After": { description: retryAfterText(some), schema: { type: "integer" } } } }
          : headersOf(status === 401 ? { "WWW-Authenticate": "The scheme of the token: `Bearer`." } : {})),
        content: {
          [json]: {
            schema: {
              allOf: [{ $ref: "#/components/schemas/Error" }, { type: "object", properties: { code: { type: "string", enum: some } } }],
            },
          },
        },
      };
      return [status, { $ref: `#/components/responses/${name}` }];
    }),
  );
}

const retryAfterText = (codes: readonly ErrorCode[]): string =>
  codes.includes("service_quota_used_up") ? "Seconds. Not with `service_quota_used_up`: see `details.until`." : "Seconds.";

/** The JSON Schema of a request or an answer. Schemas with an `id` go to `components`, where it refers to them. */
function jsonSchemaOf(schema: z.ZodType, { schemas }: Components): JsonSchema {
  const {
    $schema: _,
    $defs = {},
    ...rest
  } = z.toJSONSchema(schema, {
    // Programs must accept additional fields in answers; strict objects refuse them in requests.
    io: "input",
    override: ({ jsonSchema }) => {
      // Zod's own format, in no registry; the pattern beside it is equivalent.
      if (jsonSchema.format === "starts_with") delete jsonSchema.format;
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
    },
  });
  const referring = (part: JsonSchema) =>
    JSON.parse(JSON.stringify(part).replaceAll('"$ref":"#/$defs/', '"$ref":"#/components/schemas/')) as JsonSchema;
  for (const [name, definition] of Object.entries($defs)) schemas[name] = referring(definition);
  return referring(rest);
}
