import { expect } from "vitest";
import type { AnyRelay } from "../../harness/relay-here.ts";
import type { Schema } from "./schema-check.ts";

/** `GET /v1/openapi.json`, as far as tests look into it. */
export interface OpenApi {
  readonly openapi: string;
  readonly info: { readonly title: string; readonly version: string };
  readonly servers: readonly unknown[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: {
    readonly securitySchemes: Readonly<Record<string, unknown>>;
    readonly schemas: Readonly<Record<string, Schema>>;
    readonly responses: Readonly<Record<string, Response>>;
  };
}

export interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  readonly "x-scope": string;
  readonly parameters?: readonly {
    readonly name: string;
    readonly in: string;
    readonly required?: true;
    readonly schema: Schema;
  }[];
  readonly requestBody?: { readonly required: boolean; readonly content: Content };
  readonly responses: Readonly<Record<string, Response | { readonly $ref: string }>>;
}

type Content = Readonly<Record<string, { readonly schema: Schema }>>;

interface Response {
  readonly description: string;
  readonly content: Content;
}

export async function documentOf(relay: Pick<AnyRelay, "ask">): Promise<OpenApi> {
  const { status, headers, body } = await relay.ask("/v1/openapi.json");
  expect([status, headers.get("content-type")]).toEqual([200, "application/json; charset=utf-8"]);
  return body as OpenApi;
}

/** All operations by `METHOD /path/{name}`. */
export function operationsOf({ paths }: OpenApi): ReadonlyMap<string, Operation> {
  return new Map(
    Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(
        ([method, operation]) => [`${method.toUpperCase()} ${path}`, operation] as const,
      ),
    ),
  );
}

/**
 * What the document says of an answer's status, with its reference followed; undefined when it says
 * nothing.
 */
export function responseOf(
  document: OpenApi,
  { responses }: Operation,
  status: number,
): Response | undefined {
  const found = responses[status];
  if (found === undefined || !("$ref" in found)) return found;
  return document.components.responses[found.$ref.replace("#/components/responses/", "")];
}

/** The error codes that an operation may answer with this status. */
export function codesOf(
  document: OpenApi,
  operation: Operation,
  status: number,
): readonly string[] {
  const { allOf } =
    responseOf(document, operation, status)?.content["application/json"]?.schema ?? {};
  const narrowed = (allOf as readonly Schema[] | undefined)?.[1]?.["properties"] as
    | Record<string, Schema>
    | undefined;
  return (narrowed?.["code"]?.["enum"] ?? []) as string[];
}
