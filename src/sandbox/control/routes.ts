import type { FastifyError, FastifyInstance, FastifyRequest } from "fastify";
import { z } from "zod";
import { bodyLimits, parseWithin } from "../../model/json.ts";
import { ApiFault, problemLines } from "../api/fault.ts";
import type { SandboxClock } from "../clock.ts";
import type { Callbacks } from "../meta/callbacks.ts";
import type { Service } from "../service.ts";
import { firstAfter, type Stored, type Table } from "../table.ts";
import { mainAccount, type Plan, type World } from "../world.ts";
import type { AccountSetup } from "./account-setup.ts";

export interface ControlParts extends Service {
  readonly clock: SandboxClock;
  readonly setup: AccountSetup;
  readonly url: () => string;
  readonly defaultPlan: Plan;
  readonly callbacks: Callbacks | null;
}

/** What `/sandbox` itself refuses, in English. */
export function refusal(status: 400 | 404 | 409, error: string): ApiFault {
  return new ApiFault(status, { error });
}

export function found<T>(record: T | undefined, what: string): T {
  if (record === undefined) throw refusal(404, `there is no ${what}`);
  return record;
}

function read<S extends z.ZodType>(schema: S, value: unknown): z.output<S> {
  const { success, data, error } = schema.safeParse(value ?? {});
  if (success) return data;
  throw refusal(400, problemLines(error));
}

export const wholeNumber = (most: number) => z.coerce.number().int().min(0).max(most);

export const pageQuery = z.strictObject({ limit: wholeNumber(1_000).min(1).default(100), after: z.string().default("") });

export function pageOf<T extends { readonly id: string }>(
  list: readonly T[],
  { limit, after }: z.output<typeof pageQuery>,
  matches: (record: T) => boolean = () => true,
) {
  const data: T[] = [];
  for (let at = firstAfter(list, after); at < list.length; at += 1) {
    const record = list[at] as T;
    if (!matches(record)) continue;
    if (data.length === limit) return { data, next: data.at(-1)?.id ?? null };
    data.push(record);
  }
  return { data, next: null };
}

export type Call = ReturnType<typeof callOf>;

function callOf(world: World, { query, params, body }: FastifyRequest) {
  const { account = mainAccount, ...filters } = query as { readonly account?: string };
  return {
    get account() {
      return found(world.accounts.get(account), `account ${account}`);
    },
    id: Object.values(params as Record<string, string>)[0] ?? "",
    body: <S extends z.ZodType>(schema: S) => read(schema, body),
    query: <S extends z.ZodType>(schema: S) => read(schema, filters),
  };
}

export type Routes = ReturnType<typeof createRoutes>;

export function createRoutes(app: FastifyInstance, world: World) {
  app.setErrorHandler((error: FastifyError, _request, reply) => {
    if (error instanceof ApiFault) return reply.code(error.status).headers(error.headers).send(error.body);
    const { statusCode = 500, message, stack } = error;
    return reply.code(statusCode).send({ error: statusCode < 500 ? message : `the sandbox failed: ${stack}` });
  });
  // Read as JSON whatever the header says: curl -d says something else.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", { parseAs: "buffer", bodyLimit: 64 * 1024 ** 2 }, (_request, body, done) => {
    const value = body.length === 0 ? { value: undefined } : parseWithin(body as Buffer, bodyLimits);
    if ("value" in value) done(null, value.value);
    else done(refusal(400, `the body ${value.fault}`));
  });
  const route = (method: string, path: string, status: number, act: (call: Call) => unknown): void => {
    app.route({
      method,
      url: `/sandbox${path}`,
      async handler(request, reply) {
        const body = await act(callOf(world, request));
        reply.code(status);
        return status === 204 ? reply.send() : body;
      },
    });
  };
  const on = (method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE", path: string, act: (call: Call) => unknown): void =>
    route(method, path, method === "DELETE" ? 204 : 200, act);
  return {
    on,
    create: (path: string, act: (call: Call) => unknown): void => route("POST", path, 201, act),
    /** Adds `GET /{name}s`. Returns what finds the record of a path's `:id`. */
    listed<T extends Stored>(name: string, table: Table<T>, shown: (record: T) => unknown = (record) => record) {
      on("GET", `/${name}s`, ({ account }) => ({ data: table.list(account.id).map(shown) }));
      return ({ account, id }: Call): T => found(table.of(account.id, id), `${name} ${id}`);
    },
  };
}
