import type { GivenAnswer, GivenRequest } from "../model/endpoint.ts";
import type { Endpoints } from "../model/endpoints/table.ts";
import { type EndpointName, paths } from "../model/paths.ts";
import { type Connection, queryOf } from "./connection.ts";

/**
 * What an endpoint takes: the parameters of its path, its query and the fields of its body, in one
 * object.
 */
export type RequestOf<Name extends EndpointName> = GivenRequest<Endpoints[Name]>;
export type AnswerOf<Name extends EndpointName> = GivenAnswer<Endpoints[Name]>;

/** Take more than one request or another answer than JSON: `RelayClient` has its own, or none. */
const special = [
  "sendMessage",
  "startRun",
  "trackMessages",
  "replay",
  "reconcile",
  "audit",
  "listen",
  "live",
] as const satisfies EndpointName[];
type Special = (typeof special)[number];

type Arguments<Request> = unknown extends Request
  ? []
  : Record<never, never> extends Request
    ? [request?: Request | undefined]
    : [request: Request];
type CallsOf = {
  readonly [Name in Exclude<EndpointName, Special>]: (
    ...request: Arguments<RequestOf<Name>>
  ) => Promise<AnswerOf<Name>>;
};

export function call<Name extends EndpointName>(
  connection: Connection,
  name: Name,
  request: object = {},
): Promise<AnswerOf<Name>> {
  const [method, template] = paths[name].split(" ") as ["GET" | "POST", string];
  const rest: Record<string, unknown> = { ...request };
  const path = template.replace(/:(\w+)/g, (_, key: string) => {
    const value = rest[key];
    delete rest[key];
    return encodeURIComponent(String(value));
  });
  if (method === "GET") return connection.json(method, path + queryOf(rest));
  const { reveal, ...body } = rest;
  return connection.json(
    method,
    path + queryOf({ reveal }),
    Object.keys(body).length === 0 ? undefined : body,
  );
}

export const Calls = class {
  constructor(connection: Connection) {
    for (const name of Object.keys(paths) as EndpointName[])
      if (!(special as readonly string[]).includes(name))
        Object.defineProperty(this, name, {
          value: (request?: object) => call(connection, name, request),
        });
  }
} as unknown as new (
  connection: Connection,
) => CallsOf;

const largestPage = 1000;

/** The pages of a list, as they are consumed, up to `limit` rows, from `before` on. */
export async function* pagesOf<
  Next extends string | number,
  Page extends { readonly data: readonly unknown[]; readonly next: Next | null },
>(
  list: (place: { readonly before: Next | undefined; readonly limit: number }) => Promise<Page>,
  limit = Number.POSITIVE_INFINITY,
  before?: Next,
): AsyncGenerator<Page, void> {
  let next = before;
  for (let left = limit; left !== 0; ) {
    const page = await list({ before: next, limit: Math.min(largestPage, left) });
    yield page;
    if (page.next === null) return;
    left -= page.data.length;
    next = page.next;
  }
}
