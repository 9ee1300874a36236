import type { GivenAnswer, GivenRequest } from "../model/endpoint.ts";
import type { Endpoints } from "../model/endpoints/table.ts";
import { type EndpointName, paths } from "../model/paths.ts";
import { type Connection, queryOf } from "./connection.ts";

/** What an endpoint takes: the parameters of its path, its query and the fields of its body, in one object. */
export type RequestOf<Name extends EndpointName> = GivenRequest<Endpoints[Name]>;
export type AnswerOf<Name extends EndpointName> = GivenAnswer<Endpoints[Name]>;

/** Endpoints whose answers or headers need a method of their own. */
type Special = "sendMessage" | "startRun" | "trackMessages" | "replay" | "reconcile" | "audit" | "listen" | "live";
type CallName = Exclude<EndpointName, Special>;

type Arguments<Request> = unknown extends Request
  ? []
  : Record<never, never> extends Request
    ? [request?: Request | undefined]
    : [request: Request];
type CallsOf = { readonly [Name in CallName]: (...request: Arguments<RequestOf<Name>>) => Promise<AnswerOf<Name>> };

export function call<Name extends EndpointName>(
  connection: Connection,
  name: Name,
  request: Readonly<Record<string, unknown>> = {},
): Promise<AnswerOf<Name>> {
  const [method, template] = paths[name].split(" ") as ["GET" | "POST", string];
  const rest = { ...request };
  const path = template.replace(/:(\w+)/g, (_, key: string) => {
    const value = rest[key];
    delete rest[key];
    return encodeURIComponent(String(value));
  });
  if (method === "GET") return connection.json(method, path + queryOf(rest));
  const { reveal, ...body } = rest;
  return connection.json(method, path + queryOf({ reveal }), Object.keys(body).length === 0 ? undefined : body);
}

export const Calls = class {
  constructor(connection: Connection) {
    for (const name of Object.keys(paths) as EndpointName[])
      if (!(name in this))
        Object.defineProperty(this, name, { value: (request?: Readonly<Record<string, unknown>>) => call(connection, name, request) });
  }
} as unknown as new (
  connection: Connection,
) => CallsOf;
