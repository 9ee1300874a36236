import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import type { AnswerView, Endpoint, Request } from "../model/endpoint.ts";
import { type Endpoints, type NamedEndpoint, named } from "../model/endpoints/table.ts";
import { badRequest, RelayError } from "../model/errors.ts";
import { issueText } from "../model/issue-text.ts";
import { type Known, knownIn } from "../model/mask.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import { suggestion } from "../model/nearest.ts";
import type { EndpointName } from "../model/paths.ts";
import { nulFault } from "../model/queries.ts";
import { holdsPii, maskAnswer, toAnswer } from "../model/view.ts";
import type { Allow, OnRequest } from "./auth.ts";

declare module "fastify" {
  interface FastifyContextConfig {
    endpoint?: NamedEndpoint;
  }
  interface FastifyRequest {
    /** Whether the answer masks personal data. Errors are masked until the caller is known. */
    isMasked: boolean;
    /**
     * What the answer is about, as received bytes or parsed: its texts may repeat the names in it.
     * Null: nothing.
     */
    about: readonly unknown[] | null;
  }
}

export interface Context {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  /** Aborted when the client disconnects before the answer is sent. */
  readonly gone: () => AbortSignal;
  /**
   * For an answer that lasts: checks the caller by the settings of now, which also decide what is
   * masked from here on.
   */
  readonly isAllowed: () => Promise<boolean>;
}

export type Handler<E extends Endpoint> = (
  input: Request<E>,
  context: Context,
) => MaybePromise<AnswerView<E> | FastifyReply>;
export type Handlers = { readonly [Name in EndpointName]: Handler<Endpoints[Name]> };

function narrow(
  input: { account?: unknown; accounts?: readonly string[] },
  accounts: readonly string[],
): void {
  const { account } = input;
  if (typeof account === "string" && !accounts.includes(account))
    throw new RelayError(
      "forbidden",
      `the token is limited to the accounts ${accounts.join(", ")}`,
    );
  input.accounts = accounts;
}

/**
 * Refuses a parameter at the wrong endpoint: `limit=5` ignored at `/v1/replay`, whose body has it,
 * would replay everything.
 */
const noQuery = z.strictObject({});

const unexpectedBody = (): RelayError =>
  new RelayError("unexpected_body", "this endpoint takes no body");

/** After the caller is checked, and before the body is read. */
export function refuseBody({ routeOptions: { config }, headers, method }: FastifyRequest): void {
  if (config.endpoint?.body === undefined) {
    // It is for another endpoint, and must not look accepted. That of a chunked POST may still be
    // empty: `addEndpoint` looks at it.
    const isChunked = headers["transfer-encoding"] !== undefined && method !== "POST";
    if (isChunked || Number(headers["content-length"] ?? 0) > 0) throw unexpectedBody();
    return;
  }
  // Decoded in another way than the sender encoded it, a text would reach a customer with other
  // characters.
  const encoding = headers["content-encoding"]?.trim().toLowerCase() ?? "identity";
  if (encoding !== "identity")
    throw new RelayError(
      "unsupported_media_type",
      "compressed bodies are not supported: send the body without content-encoding",
    );
  const charset =
    /;\s*charset\s*=\s*"?([^\s;"]*)/i.exec(headers["content-type"] ?? "")?.[1] ?? "utf-8";
  if (!/^(?:utf-?8|us-ascii)$/i.test(charset))
    throw new RelayError("unsupported_media_type", "the charset of the body must be UTF-8");
}

/** Without a caller, a command reads the store itself: the operator of this machine. */
function isMaskedFor({ caller }: FastifyRequest, reveal: boolean | undefined): boolean {
  if (caller === null) return reveal === false;
  const mayRead = caller.token.scopes.includes("pii");
  if (reveal === true && !mayRead)
    throw new RelayError("forbidden", `the token "${caller.token.name}" lacks the scope pii`);
  return reveal === false || !mayRead || (caller.session !== null && reveal !== true);
}

export function knownTo({ about }: FastifyRequest): Known | null {
  return about === null
    ? null
    : knownIn(about.map((each) => (each instanceof Uint8Array ? jsonIn(each) : each)));
}

function jsonIn(body: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(body).toString("utf8"));
  } catch {
    return null;
  }
}

function disconnectSignal({ raw }: FastifyReply): AbortSignal {
  const gone = new AbortController();
  raw.once("close", () => {
    if (!raw.writableEnded) gone.abort();
  });
  return gone.signal;
}

export const maskedHeader = "x-wamid-relay-masked";

export function addEndpoints(
  app: FastifyInstance,
  allow: Allow,
  handlers: Partial<Handlers>,
): void {
  for (const [name, handler] of Object.entries(handlers))
    addEndpoint(app, allow, named(name as EndpointName), handler as Handler<Endpoint>);
}

const open: Allow = () => async () => {};

export function addEndpoint<E extends NamedEndpoint>(
  app: FastifyInstance,
  allow: Allow,
  endpoint: E,
  handler: Handler<E>,
): void {
  const { method, path, scope, params, query, headers, body, head, answers } = endpoint;
  const isKnown = (endpoint.open === true ? open : allow)(scope);
  const check: OnRequest = async (request) => {
    await isKnown(request);
    const token = request.caller?.token;
    if (endpoint.accounts === "whole" && token?.accounts !== undefined)
      throw new RelayError(
        "forbidden",
        `the token "${token.name}" is limited to accounts, and this is about the whole relay`,
      );
  };
  app.route({
    method,
    url: path,
    onRequest: check,
    ...(head === undefined ? {} : { exposeHeadRoute: head }),
    config: { endpoint },
    handler: async (request, reply) => {
      // A chunked body has no length that says so earlier.
      if (body === undefined && request.body !== undefined) throw unexpectedBody();
      const { reveal, ...asked }: Record<string, unknown> & { readonly reveal?: boolean } = parse(
        query ?? noQuery,
        withoutNul(request.query),
        "query parameter",
      );
      request.isMasked = isMaskedFor(request, reveal);
      const accounts = request.caller?.token.accounts;
      const isAllowed = async (): Promise<boolean> => {
        try {
          await check(request);
          const isSame = String(request.caller?.token.accounts) === String(accounts);
          request.isMasked = !isSame || isMaskedFor(request, reveal);
          return isSame;
        } catch (error) {
          request.isMasked = true;
          // Nobody can sign out now either. A console that lost its stream could not say why.
          return (error as Error).name === "StoreUnavailable";
        }
      };
      const named = { ...(params && parse(params, withoutNul(request.params))), ...asked };
      const given = Buffer.isBuffer(request.body)
        ? request.body
        : body && parse(body, request.body ?? undefined);
      const input: { account?: unknown; accounts?: readonly string[] } = {
        ...named,
        ...(endpoint.lines === undefined ? (given as object | undefined) : { body: given }),
        ...(headers && parse(headers, request.headers)),
      };
      if (accounts !== undefined && endpoint.accounts === "narrowed") narrow(input, accounts);
      if (reveal === true) request.caller?.revealed(endpoint.name, named);
      const view: unknown = await handler(input as unknown as Request<E>, {
        request,
        reply,
        gone: () => disconnectSignal(reply),
        isAllowed,
      });
      const { schema } = answers[reply.statusCode] ?? {};
      if (view === reply || schema === undefined) return view;
      const answer = toAnswer(schema, view);
      if (!holdsPii(schema)) return answer;
      // An answer may take half a minute, and the token may have lost the scope meanwhile.
      if (!request.isMasked) await isAllowed();
      if (!request.isMasked) return answer;
      reply.header(maskedHeader, "true");
      return maskAnswer(schema, answer, knownTo(request));
    },
  });
}

function withoutNul(values: unknown): unknown {
  for (const [path, value] of Object.entries(values ?? {}))
    if (String(value).includes("\0")) throw badRequest([{ path, message: nulFault }]);
  return values;
}

/**
 * Parses, or throws `bad_request` whose details list each fault as `{path, message}`. `key` is what
 * one of the value's keys is.
 */
export function parse<T extends z.ZodType>(
  schema: T,
  value: unknown,
  key: "field" | "query parameter" = "field",
): z.infer<T> {
  const error = (issue: z.core.$ZodRawIssue) =>
    issue.code === "unrecognized_keys" ? unknownKeysText(issue, key) : issueText(issue);
  const parsed = schema.safeParse(value, { error });
  if (parsed.success) return parsed.data;
  const details = parsed.error.issues
    .flatMap(faultsIn)
    .map(({ path, message }) => ({ path: path.map(String).join("."), message }));
  throw badRequest(details, key === "field" ? "the body" : "the query");
}

type Issue = z.core.$ZodIssue;

function unknownKeysText(
  { keys, inst }: z.core.$ZodRawIssue<z.core.$ZodIssueUnrecognizedKeys>,
  what: string,
): string {
  const known = inst instanceof z.ZodObject ? Object.keys(inst.shape) : [];
  return keys
    .map((key) => `unknown ${what} (${suggestion(key, known, "this endpoint takes none")})`)
    .join("\n");
}

/** For a union, the faults of the shape that the value has: that no shape fits would not help. */
function faultsIn(issue: Issue): Pick<Issue, "path" | "message">[] {
  const { path, message } = issue;
  if (issue.code === "unrecognized_keys") {
    const texts = message.split("\n");
    return issue.keys.map((key, at) => ({ path: [...path, key], message: texts[at] ?? message }));
  }
  if (issue.code !== "invalid_union") return [issue];
  const branch = issue.errors.find(
    (faults) => !faults.some((fault) => fault.code === "invalid_type" && fault.path.length === 0),
  );
  if (branch === undefined) return [issue];
  return branch.flatMap(faultsIn).map((fault) => ({ ...fault, path: [...path, ...fault.path] }));
}
