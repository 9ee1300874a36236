import type { FastifyError, FastifyInstance, FastifyRequest } from "fastify";
import { z } from "zod";
import { addJsonBodies } from "../api/app.ts";
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

export const pageQuery = z.strictObject({
  limit: wholeNumber(1_000).min(1).default(100),
  after: z.string().default(""),
});

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

/** Of an endpoint that takes no input. */
export const none = z.unknown();

export type Call<S extends z.ZodType = typeof none> = ReturnType<typeof callOf<S>>;

/**
 * `input`: the query of a GET, the body of others. Read when it is looked at: an unknown account or
 * record is found first.
 */
function callOf<S extends z.ZodType>(
  world: World,
  schema: S,
  { method, query, params, body }: FastifyRequest,
) {
  const { account = mainAccount, ...filters } = query as { readonly account?: string };
  return {
    get account() {
      return found(world.accounts.get(account), `account ${account}`);
    },
    id: Object.values(params as Record<string, string>)[0] ?? "",
    get input() {
      return read(schema, method === "GET" ? filters : body);
    },
  };
}

type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

export type Routes = ReturnType<typeof createRoutes>;

export function createRoutes(app: FastifyInstance, world: World) {
  app.setErrorHandler((error: FastifyError, _request, reply) => {
    if (error instanceof ApiFault)
      return reply.code(error.status).headers(error.headers).send(error.body);
    const { statusCode = 500, message, stack } = error;
    return reply
      .code(statusCode)
      .send({ error: statusCode < 500 ? message : `the sandbox failed: ${stack}` });
  });
  // Read as JSON whatever the header says: curl -d says something else.
  addJsonBodies(app, "*", (why) => refusal(400, `the body ${why}`), 64 * 1024 ** 2);
  const add = <S extends z.ZodType>(
    status: number,
    route: string,
    schema: S,
    act: (call: Call<S>) => unknown,
  ): void => {
    const [method = "", path = ""] = route.split(" ");
    app.route({
      method,
      url: `/sandbox${path}`,
      async handler(request, reply) {
        const body = await act(callOf(world, schema, request));
        reply.code(status);
        return status === 204 ? reply.send() : body;
      },
    });
  };
  const on = <S extends z.ZodType>(
    route: `${Method} /${string}` | "GET ",
    schema: S,
    act: (call: Call<S>) => unknown,
  ): void => add(route.startsWith("DELETE") ? 204 : 200, route, schema, act);
  return {
    on,
    create: <S extends z.ZodType>(path: string, schema: S, act: (call: Call<S>) => unknown): void =>
      add(201, `POST ${path}`, schema, act),
    /** Adds `GET /{name}s`. Returns what finds the record of a path's `:id`. */
    listed<T extends Stored>(
      name: string,
      table: Table<T>,
      shown: (record: T) => unknown = (record) => record,
    ) {
      on(`GET /${name}s`, none, ({ account }) => ({ data: table.list(account.id).map(shown) }));
      return ({ account, id }: Pick<Call, "account" | "id">): T =>
        found(table.of(account.id, id), `${name} ${id}`);
    },
  };
}
