import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import { type ErrorCode, RelayError } from "../model/errors.ts";
import { maxIdLength } from "../model/ids.ts";
import { issueText } from "../model/issue-text.ts";
import { fewestPhoneDigits } from "../model/mask.ts";
import { suggestion } from "../model/nearest.ts";
import { holdsPii, maskAnswer } from "../model/view.ts";
import type { Allow } from "./auth.ts";

declare module "fastify" {
  interface FastifyContextConfig {
    endpoint?: Endpoint;
  }
  interface FastifyRequest {
    /** Whether the answer masks personal data. Errors are masked until the caller is known. */
    isMasked: boolean;
  }
}

export type { Allow } from "./auth.ts";

/** One endpoint of the control API. Its schemas parse each request and describe it in `/v1/openapi.json`. */
export interface Endpoint {
  readonly method: "GET" | "POST";
  /** As Fastify writes it: `/v1/events/:id`. */
  readonly path: string;
  /** The OpenAPI operation id, for generated clients. */
  readonly name: string;
  /** Null: any token or session. */
  readonly scope: string | null;
  /** The endpoint needs neither. */
  readonly open?: true;
  /** A few words. */
  readonly summary: string;
  /** Markdown, for what the schemas do not say. */
  readonly description?: string;
  /** Required when the path has parameters; names all of them. */
  readonly params?: z.ZodObject;
  /** A strict object. Without one, every query parameter is refused. */
  readonly query?: z.ZodObject;
  /** Names in lower case, as in Node. */
  readonly headers?: z.ZodObject;
  /** JSON. Optional if the schema takes `undefined`. */
  readonly body?: z.ZodType;
  /** Describes the lines where the endpoint also takes an NDJSON body; the handler gets its bytes. */
  readonly lines?: string;
  /** By status. */
  readonly answers: Readonly<Record<number, Answer>>;
  /** In addition to those of every endpoint. */
  readonly errors?: readonly ErrorCode[];
  /** False where HEAD would never end. */
  readonly head?: false;
}

export interface Answer {
  readonly text: string;
  /** Of its JSON. */
  readonly schema?: z.ZodType;
  /** Content types other than JSON alone. */
  readonly types?: readonly string[];
  /** What its headers say, by name. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Of one line, where the answer may be NDJSON. */
  readonly line?: z.ZodType;
}

/** What the handler returns: the JSON of one of the answers, or the reply when it has sent the answer itself. */
type AnswerOf<E extends Endpoint> =
  | FastifyReply
  | (E["answers"][keyof E["answers"]] extends infer One
      ? One extends { readonly schema: infer S extends z.ZodType }
        ? z.infer<S>
        : never
      : never);

type Parsed<E, Part extends string> = E extends Readonly<Record<Part, infer S extends z.ZodType>> ? z.infer<S> : undefined;

/** Parts that the endpoint does not declare are undefined. */
interface ParsedRequest<E extends Endpoint> {
  readonly params: Parsed<E, "params">;
  readonly query: Parsed<E, "query">;
  readonly headers: Parsed<E, "headers">;
  readonly body: Parsed<E, "body"> | (E extends { readonly lines: string } ? Buffer : never);
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  /** For an answer that lasts: checks the caller by the settings of now, which also decide what is masked from here on. */
  readonly isAllowed: () => Promise<boolean>;
}

/** Refuses a parameter at the wrong endpoint: `limit=5` ignored at `/v1/replay`, whose body has it, would replay everything. */
const noQuery = z.strictObject({}).transform(() => undefined);

const unexpectedBody = (): RelayError => new RelayError("unexpected_body", "this endpoint takes no body");

/** After the caller is checked, and before the body is read: a body for another endpoint must not look accepted. */
export function refuseUnexpectedBody({ routeOptions: { config }, headers, method }: FastifyRequest): void {
  if (config.endpoint?.body !== undefined) return;
  const isChunked = headers["transfer-encoding"] !== undefined;
  // The body of a chunked POST may still be empty; `addEndpoint` looks at it once it is read.
  if (Number(headers["content-length"] ?? 0) > 0 || (isChunked && method !== "POST")) throw unexpectedBody();
}

/** Decoded in another way than the sender encoded it, a text would reach a customer with other characters. */
export function refuseUnreadableBody({ routeOptions: { config }, headers }: FastifyRequest): void {
  if (config.endpoint?.body === undefined) return;
  const encoding = headers["content-encoding"]?.trim().toLowerCase() ?? "identity";
  if (encoding !== "identity") {
    throw new RelayError("unsupported_media_type", "compressed bodies are not supported: send the body without content-encoding");
  }
  const charset = /;\s*charset\s*=\s*"?([^\s;"]*)/i.exec(headers["content-type"] ?? "")?.[1] ?? "utf-8";
  if (!/^(?:utf-?8|us-ascii)$/i.test(charset)) throw new RelayError("unsupported_media_type", "the charset of the body must be UTF-8");
}

const revealQuery = z.strictObject({
  reveal: z
    .enum(["true", "false"])
    .optional()
    .describe("`true`: in clear. Needs the scope `pii`, and writes a line to the log. A bearer token with `pii` always reads in clear."),
});

/** A reading endpoint whose answer has personal data takes `reveal`. */
function withReveal(endpoint: Endpoint): Endpoint {
  const isPersonal = Object.values(endpoint.answers).some(({ schema }) => schema !== undefined && holdsPii(schema));
  if (endpoint.method !== "GET" || !isPersonal) return endpoint;
  return { ...endpoint, query: endpoint.query === undefined ? revealQuery : endpoint.query.extend(revealQuery.shape) };
}

/** Without a caller, a command reads the store itself: the operator of this machine. */
function isMaskedFor({ caller }: FastifyRequest, reveal: boolean): boolean {
  if (caller === null) return false;
  const mayRead = caller.token.scopes.includes("pii");
  if (reveal && !mayRead) throw new RelayError("forbidden", `the token "${caller.token.name}" lacks the scope pii`);
  return !mayRead || (caller.session !== null && !reveal);
}

/** Aborted when the client disconnects before the answer is sent. */
export function disconnectSignal({ raw }: FastifyReply): AbortSignal {
  const gone = new AbortController();
  raw.once("close", () => {
    if (!raw.writableEnded) gone.abort();
  });
  return gone.signal;
}

/** On answers whose personal data is masked. */
export const maskedHeader = "x-wamid-relay-masked";

/** Adds the route of `endpoint` for callers that `allow` admits. A request that does not fit its schemas is answered `bad_request`. */
export function addEndpoint<const E extends Endpoint>(
  app: FastifyInstance,
  allow: Allow,
  given: E,
  answer: (request: ParsedRequest<E>) => Promise<AnswerOf<E>>,
): void {
  const endpoint = withReveal(given);
  const { method, path, scope, params, query, headers, body, head, answers } = endpoint;
  app.route({
    method,
    url: path,
    onRequest: allow(scope),
    ...(head === undefined ? {} : { exposeHeadRoute: head }),
    config: { endpoint },
    handler: async (request, reply) => {
      // A chunked body has no length that says so earlier.
      if (body === undefined && request.body !== undefined) throw unexpectedBody();
      const { reveal, ...asked } = { reveal: undefined, ...parse(query ?? noQuery, withoutNul(request.query), "query parameter") };
      request.isMasked = isMaskedFor(request, reveal === "true");
      const isAllowed = async (): Promise<boolean> => {
        try {
          await allow(scope)(request);
          request.isMasked = isMaskedFor(request, reveal === "true");
          return true;
        } catch {
          request.isMasked = true;
          return false;
        }
      };
      const parsed = {
        params: params && parse(params, withoutNul(request.params)),
        query: given.query && asked,
        body: Buffer.isBuffer(request.body) ? request.body : body && parse(body, request.body ?? undefined),
        headers: headers && parse(headers, request.headers),
        request,
        reply,
        isAllowed,
      };
      if (reveal === "true") request.caller?.revealed(endpoint.name, { ...(parsed.params as object), ...asked });
      const answered: unknown = await answer(parsed as unknown as ParsedRequest<E>);
      const { schema } = answers[reply.statusCode] ?? {};
      if (answered === reply || schema === undefined || !holdsPii(schema)) return answered;
      // An answer may take half a minute, and the token may have lost the scope meanwhile.
      if (!request.isMasked) await isAllowed();
      if (!request.isMasked) return answered;
      reply.header(maskedHeader, "true");
      return maskAnswer(schema, answered);
    },
  });
}

export const time = z.iso.datetime({ offset: true }).transform((text) => Date.parse(text));
/** PostgreSQL stores no text with one, and cannot look for it. */
const nulFault = "has a NUL character";

function withoutNul(values: unknown): unknown {
  for (const [path, value] of Object.entries(values ?? {}))
    if (String(value).includes("\0")) throw new RelayError("bad_request", `${path}: ${nulFault}`, [{ path, message: nulFault }]);
  return values;
}

/** A foreign id or a reference. The stores return half of a surrogate pair as another text, so a repeated request would conflict. */
export const idText = z
  .string()
  .min(1)
  .max(maxIdLength)
  .refine((text) => text.isWellFormed(), "is not well-formed text")
  .refine((text) => !text.includes("\0"), nulFault);
/** The last digits of a phone number, at least as many as stores index. */
export const phoneEnd = z.string().regex(new RegExp(`^\\d{${fewestPhoneDigits},15}$`), `must be ${fewestPhoneDigits} to 15 digits`);
export const listLimit = z.coerce.number().int().min(1).max(1000).default(50).describe("Most rows of one page.");
export const nextOfBefore = "`next` of the previous page.";
export const listBefore = z.coerce.number().int().min(1).optional().describe(nextOfBefore);
export const accountQuery = z.strictObject({ account: z.string().optional().describe("Selects among several accounts that have it.") });

/** One page of a list; `next` requests the one after it, null at the end. A page may be short and still have a next one. */
export interface Page<T, Next> {
  readonly data: readonly T[];
  readonly next: Next | null;
}

/** Parses, or throws `bad_request` whose details list each fault as `{path, message}`. `key` is what one of the value's keys is. */
export function parse<T extends z.ZodType>(schema: T, value: unknown, key: "field" | "query parameter" = "field"): z.infer<T> {
  const parsed = schema.safeParse(value, { error: (issue) => issueText(issue) });
  if (parsed.success) return parsed.data;
  const details = parsed.error.issues
    .flatMap(faultsIn)
    .flatMap((issue) => worded(issue, schema, key))
    .map(({ path, message }) => ({ path: path.map(String).join("."), message }));
  const whole = key === "field" ? "the body" : "the query";
  throw new RelayError(
    "bad_request",
    details.map(({ path, message }) => (path === "" ? `${whole} ${message}` : `${path}: ${message}`)).join("; "),
    details,
  );
}

type Issue = z.core.$ZodIssue;
type Fault = Pick<Issue, "path" | "message">;

/** The keys that the object at `path` may have. */
function keysAt(schema: z.core.$ZodType | undefined, path: readonly PropertyKey[]): string[] {
  if (schema instanceof z.ZodUnion) return schema.options.flatMap((option) => keysAt(option, path));
  if (schema instanceof z.ZodPipe) return keysAt(schema.in, path);
  if (schema instanceof z.ZodPrefault || schema instanceof z.ZodOptional) return keysAt(schema.unwrap(), path);
  const [step, ...rest] = path;
  if (schema instanceof z.ZodArray && step !== undefined) return keysAt(schema.element, rest);
  if (!(schema instanceof z.ZodObject)) return [];
  return step === undefined ? Object.keys(schema.shape) : keysAt(schema.shape[String(step)], rest);
}

/** Suggests what was probably meant by an unknown key. */
function worded(issue: Issue, schema: z.ZodType, what: string): Fault[] {
  const { path, message } = issue;
  if (issue.code !== "unrecognized_keys") return [{ path, message }];
  const known = keysAt(schema, path);
  return issue.keys.map((key) => ({
    path: [...path, key],
    message: `unknown ${what} (${suggestion(key, known, "this endpoint takes none")})`,
  }));
}

/** For a union, the faults of the shape that the value has: that no shape fits would not help. */
function faultsIn(issue: Issue): Issue[] {
  if (issue.code !== "invalid_union") return [issue];
  const branch = issue.errors.find((faults) => !faults.some(({ code, path }) => code === "invalid_type" && path.length === 0));
  if (branch === undefined) return [issue];
  return branch.flatMap(faultsIn).map((fault) => ({ ...fault, path: [...issue.path, ...fault.path] }));
}
