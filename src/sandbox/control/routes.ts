import type { FastifyInstance, FastifyRequest } from "fastify";
import { z } from "zod";
import type { Clock } from "../../model/clock.ts";
import { bodyLimits, parseWithin } from "../../model/json.ts";
import { ApiFault } from "../api/fault.ts";
import type { Campaigns } from "../campaigns/campaigns.ts";
import type { ClockControls } from "../clock.ts";
import type { Posting } from "../events/posting.ts";
import type { Publisher } from "../events/publisher.ts";
import type { FaultBox } from "../faults.ts";
import type { Limits } from "../limits/limits.ts";
import type { IncomingMessage, Messaging } from "../messaging/messaging.ts";
import type { Callbacks } from "../meta/callbacks.ts";
import type { MetaPublisher } from "../meta/publisher.ts";
import type { AccountRecord, MessageRecord, Plan } from "../world/records.ts";
import { firstAfter, type Table, type World } from "../world/world.ts";
import type { AccountSetup } from "./account-setup.ts";

export interface ControlParts {
  readonly world: World;
  readonly clock: ClockControls;
  readonly baseClock: Clock;
  readonly setup: AccountSetup;
  readonly limits: Limits;
  readonly messaging: Messaging;
  readonly campaigns: Campaigns;
  readonly customerWrites: (account: string, from: IncomingMessage) => MessageRecord;
  readonly publisher: Publisher;
  readonly posting: Posting;
  readonly faults: FaultBox;
  readonly forgetBlocks: () => void;
  readonly url: () => string;
  readonly defaultPlan: Plan;
  readonly callbacks: Callbacks | null;
  readonly meta: Pick<MetaPublisher, "request"> | null;
}

/** What `/sandbox` itself refuses, in English. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly status: 400 | 404 | 409;

  constructor(status: 400 | 404 | 409, error: string) {
    super(error);
    this.status = status;
  }
}

export function found<T>(record: T | undefined, what: string): T {
  if (record === undefined) throw new Refusal(404, `there is no ${what}`);
  return record;
}

export function read<S extends z.ZodType>(schema: S, value: unknown): z.output<S> {
  const result = schema.safeParse(value ?? {});
  if (result.success) return result.data;
  const problems = result.error.issues.map(({ path, message }) => (path.length === 0 ? message : `${path.join(".")}: ${message}`));
  throw new Refusal(400, problems.join("; "));
}

export function answerOf(error: unknown): { status: number; body: object; headers: Readonly<Record<string, string>> } | null {
  if (error instanceof Refusal) return { status: error.status, body: { error: error.message }, headers: {} };
  if (error instanceof ApiFault) return error;
  const { statusCode, message } = error as { statusCode?: number; message?: string };
  if (typeof statusCode === "number" && statusCode < 500) return { status: statusCode, body: { error: message }, headers: {} };
  return null;
}

export const wholeNumber = (most: number) => z.coerce.number().int().min(0).max(most);

export const pageQuery = z.object({ limit: wholeNumber(1_000).min(1).default(100), after: z.string().optional() });

/** A page of `list`, which is in order of ids; `next` is null on the last page. */
export function pageOf<T extends { readonly id: string }>(
  list: readonly T[],
  { limit, after }: { readonly limit: number; readonly after?: string | undefined },
  matches: (record: T) => boolean = () => true,
): { data: T[]; next: string | null } {
  const data: T[] = [];
  for (let at = after === undefined ? 0 : firstAfter(list, after); at < list.length; at += 1) {
    const record = list[at] as T;
    if (!matches(record)) continue;
    if (data.length === limit) return { data, next: data.at(-1)?.id ?? null };
    data.push(record);
  }
  return { data, next: null };
}

export interface Call {
  /** The one that `?account=` names; `main` when none is named. */
  readonly account: AccountRecord;
  readonly id: string;
  body<S extends z.ZodType>(schema: S): z.output<S>;
  query<S extends z.ZodType>(schema: S): z.output<S>;
}

type RecordOf<K extends keyof World> = NonNullable<ReturnType<World[K]["get"]>>;

export interface Routes {
  /** Answers 200 with what `act` returns, or 204 after DELETE. */
  on(method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE", path: string, act: (call: Call) => unknown): void;
  create(path: string, act: (call: Call) => unknown): void;
  /** Adds `GET /{table}`. Returns what finds the record of a path's `:id`. */
  listed<K extends keyof World>(table: K, shown?: (record: RecordOf<K>) => unknown): (call: Call) => RecordOf<K>;
  put<K extends keyof World>(table: K, record: RecordOf<K>): RecordOf<K>;
}

export function createRoutes(app: FastifyInstance, world: World): Routes {
  const callOf = (request: FastifyRequest): Call => ({
    get account() {
      const { account = "main" } = request.query as { account?: string };
      return found(world.accounts.get(account), `account ${account}`);
    },
    id: Object.values(request.params as Record<string, string>)[0] ?? "",
    body: (schema) => read(schema, request.body),
    query: (schema) => read(schema, request.query),
  });
  const tableOf = <K extends keyof World>(name: K) => world[name] as unknown as Table<RecordOf<K>>;

  app.setErrorHandler((error, _request, reply) => {
    const answer = answerOf(error);
    if (answer !== null) return reply.code(answer.status).headers(answer.headers).send(answer.body);
    return reply.code(500).send({ error: `the sandbox failed: ${(error as Error).stack ?? String(error)}` });
  });
  // Read as JSON whatever the header says: curl -d says something else.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", { parseAs: "buffer", bodyLimit: 64 * 1024 ** 2 }, (_request, body, done) => {
    const value = body.length === 0 ? { value: undefined } : parseWithin(body as Buffer, bodyLimits);
    if ("value" in value) done(null, value.value);
    else done(new Refusal(400, `the body ${value.fault}`));
  });
  const route = (method: string, path: string, act: (call: Call) => unknown, status: number): void => {
    app.route({
      method,
      url: `/sandbox${path}`,
      async handler(request, reply) {
        const body = await act(callOf(request));
        reply.code(status);
        return status === 204 ? reply.send() : body;
      },
    });
  };
  const on: Routes["on"] = (method, path, act) => route(method, path, act, method === "DELETE" ? 204 : 200);
  return {
    on,
    create: (path, act) => route("POST", path, act, 201),
    listed(table, shown = (record) => record) {
      on("GET", `/${table}`, ({ account }) => ({ data: tableOf(table).list(account.id).map(shown) }));
      return ({ account, id }) => found(tableOf(table).of(account.id, id), `${table.slice(0, -1)} ${id}`);
    },
    put(table, record) {
      tableOf(table).put(record);
      return record;
    },
  };
}
