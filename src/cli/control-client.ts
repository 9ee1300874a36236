import type { FastifyInstance } from "fastify";
import type { Agent } from "undici";
import type { ListenTls } from "../model/tls.ts";
import { type Answer, type AnswerName, parseAnswer } from "./answers.ts";
import { CommandFailed } from "./io.ts";

export interface ControlAnswer {
  readonly status: number;
  /** The parsed body. */
  readonly json: unknown;
  /** The first answer to the same request, made before. */
  readonly isReplayed: boolean;
}

/** A client of the control API, over HTTP or directly on the store: same paths, same answers. */
export interface ControlClient {
  /**
   * Posts JSON, or NDJSON where `body` is text; an answer in NDJSON is an array of what its lines parse to. Throws
   * {@link CommandFailed} when no relay answers. Any HTTP status of a relay is data.
   */
  request(method: "GET" | "POST", path: string, body?: unknown, headers?: Readonly<Record<string, string>>): Promise<ControlAnswer>;
  /** The relay's address, without a slash at the end; none when the command opened the store itself. */
  readonly url?: string;
  /** True when the command opened the store itself, because no relay runs. */
  readonly isStore?: true;
  close(): Promise<void>;
}

/** Where a relay listens. */
export interface Reachable {
  /** Without a slash at its end. */
  readonly url: string;
  /** Of the port, where the address is that of the settings. */
  readonly tls?: ListenTls | undefined;
}

/** The body of a 2xx answer. Throws {@link CommandFailed} with the relay's error message. */
export function expectDone({ status, json }: ControlAnswer): unknown {
  if (status >= 200 && status < 300) return json;
  const { error, code } = json as { error?: unknown; code?: unknown };
  if (typeof error !== "string") throw new CommandFailed(`answered ${status}, and not as a wamid-relay would`);
  if (code === "unauthorized") throw new CommandFailed(`the relay does not know the token: ${error}`);
  throw new CommandFailed(error);
}

/** The 2xx answer to a request. Throws {@link CommandFailed} with the relay's error message. */
export async function call<Name extends AnswerName>(
  client: Pick<ControlClient, "request">,
  name: Name,
  method: "GET" | "POST",
  path: string,
  body?: unknown,
): Promise<Answer<Name>> {
  return readAnswer(name, expectDone(await client.request(method, path, body)));
}

/** Throws {@link CommandFailed} for another answer: that of a relay of another version, or of no relay. */
export function readAnswer<Name extends AnswerName>(name: Name, json: unknown): Answer<Name> {
  const parsed = parseAnswer(name, json);
  if ("data" in parsed) return parsed.data;
  throw new CommandFailed(`the answer is not that of this version's relay (${parsed.fault})`);
}

/** Most rows of one page of the API. */
const largestPage = 1000;

/** Reads pages until there are `limit` rows, or no more. `next` is for `--before`, null when nothing is left. */
export async function readPages<Name extends "events" | "deliveries">(
  client: Pick<ControlClient, "request">,
  name: Name,
  query: Readonly<Record<string, string | undefined>>,
  limit: number,
): Promise<Answer<Name>> {
  const data: unknown[] = [];
  let before = query["before"];
  for (;;) {
    const parameters = { ...query, before, limit: String(Math.min(largestPage, limit - data.length)) };
    const given = Object.entries(parameters).filter((entry): entry is [string, string] => entry[1] !== undefined);
    const page = await call(client, name, "GET", `/v1/${name}?${new URLSearchParams(given)}`);
    data.push(...page.data);
    if (page.next === null || data.length >= limit) return { data, next: page.next } as Answer<Name>;
    before = String(page.next);
  }
}

const ndjson = "application/x-ndjson";
const replayedHeader = "idempotent-replayed";

/** Longest wait for one answer. A replay answers after some seconds at most. */
const answerWithinMs = 60_000;
/** The same for `/healthz`. */
export const probeWithinMs = 10_000;

interface RawAnswer {
  readonly status: number;
  /** The content type. */
  readonly type: string;
  readonly isReplayed: boolean;
  readonly text: string;
}
type Exchange = (method: string, path: string, headers: Record<string, string>, body: string | undefined) => Promise<RawAnswer>;

/** Connects to a relay over HTTP. */
export function connectRelay(at: Reachable, token: string | null, withinMs = answerWithinMs): ControlClient {
  const { url } = at;
  return { url, request: requester(fetcher(at, withinMs), token, url), close: async () => {} };
}

/** Reads personal data in clear, which the relay allows with the scope `pii` only. */
export function revealing(client: ControlClient): ControlClient {
  return { ...client, request: (method, path, ...rest) => client.request(method, withReveal(path, true), ...rest) };
}

function withReveal(path: string, reveal: boolean): string {
  if (!path.startsWith("/v1/") || /[?&]reveal=/.test(path)) return path;
  return `${path}${path.includes("?") ? "&" : "?"}reveal=${reveal}`;
}

/** The documented proxies answer 404 to everything except webhooks and health checks. */
export function proxyHint(status: number): string {
  if (status !== 404) return "";
  return "; a proxy may pass on webhooks only: open an SSH tunnel to the control port (docs/how-to/deploy.md), then use --relay http://127.0.0.1:9090";
}

function requester(exchange: Exchange, token: string | null, url: string): ControlClient["request"] {
  return async (method, path, body, more = {}) => {
    const isLines = typeof body === "string";
    const headers = {
      ...more,
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { "content-type": isLines ? ndjson : "application/json" }),
    };
    const answer = await exchange(method, withReveal(path, false), headers, isLines ? body : JSON.stringify(body));
    const json = parsedBody(answer);
    if (typeof json === "object" && json !== null) return { status: answer.status, json, isReplayed: answer.isReplayed };
    const { status } = answer;
    throw new CommandFailed(
      `what answers at ${url} is no wamid-relay (status ${status} to ${method} ${path.split("?")[0]})${proxyHint(status)}`,
    );
  };
}

/** What listens on a port. */
export type Listener =
  | { readonly kind: "nobody" }
  | { readonly kind: "stranger" }
  | { readonly kind: "relay"; readonly instance: string; readonly version: string };

/** What listens there. Sends no token: another server may listen on that port. */
export async function probeListener(at: Reachable, withinMs = answerWithinMs): Promise<Listener> {
  try {
    const { instance, version } = (parsedBody(await fetcher(at, withinMs)("GET", "/healthz", {}, undefined)) ?? {}) as Record<
      string,
      unknown
    >;
    if (typeof instance !== "string" || typeof version !== "string") return { kind: "stranger" };
    return { kind: "relay", instance, version };
  } catch (error) {
    if (error instanceof Unreachable && error.refused) return { kind: "nobody" };
    throw error;
  }
}

/** Requests to the control API in this process. `place` names it in errors. */
export function injected(http: FastifyInstance, token: string | null, place: string): ControlClient["request"] {
  return requester(injector(http), token, place);
}

function injector(http: FastifyInstance): Exchange {
  return async (method, url, headers, payload) => {
    const answer = await http.inject({ method: method as "GET", url, headers, ...(payload === undefined ? {} : { payload }) });
    const isReplayed = answer.headers[replayedHeader] === "true";
    return { status: answer.statusCode, type: String(answer.headers["content-type"]), isReplayed, text: answer.body };
  };
}

/** Undefined for a body that does not match its content type. */
function parsedBody({ text, type }: RawAnswer): unknown {
  try {
    if (!type.startsWith(ndjson)) return JSON.parse(text) as unknown;
    return text
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as unknown);
  } catch {
    return undefined;
  }
}

class Unreachable extends CommandFailed {
  /** True when nothing listens there. */
  readonly refused: boolean;

  constructor({ url, tls }: Reachable, code: string) {
    super(`no answer from ${new URL(url).origin} (${code})${tls === undefined ? "" : tlsHint(code, tls)}`);
    this.refused = code === "ECONNREFUSED";
  }
}

function tlsHint(code: string, { ca }: ListenTls): string {
  if (/CERT|SIGNATURE/.test(code)) return "; its certificate is not that of the settings: if you renewed it, send SIGHUP to the relay";
  return code !== "ECONNREFUSED" && ca !== undefined ? "; commands present the certificate of the port: does its tls.ca accept that?" : "";
}

/** Node's own `fetch` takes no TLS settings. */
export async function ownFetch(tls: ListenTls | undefined, options: Agent.Options = {}): Promise<typeof fetch> {
  const [undici, { ownPortOptions }] = await Promise.all([import("undici"), import("../model/tls.ts")]);
  const dispatcher = new undici.Agent({ allowH2: false, ...(tls && { connect: ownPortOptions(tls) }), ...options });
  return ((url: string, init: RequestInit) => undici.fetch(url, { ...(init as object), dispatcher })) as typeof fetch;
}

function fetcher(at: Reachable, withinMs = answerWithinMs): Exchange {
  let fetching: Promise<typeof fetch> | undefined;
  return async (method, path, headers, body) => {
    try {
      fetching ??= at.tls === undefined ? Promise.resolve(fetch) : ownFetch(at.tls);
      const answer = await (await fetching)(`${at.url}${path}`, {
        method,
        headers,
        ...(body === undefined ? {} : { body }),
        redirect: "manual",
        signal: AbortSignal.timeout(withinMs),
      });
      const isReplayed = answer.headers.get(replayedHeader) === "true";
      return { status: answer.status, type: answer.headers.get("content-type") ?? "", isReplayed, text: await answer.text() };
    } catch (error) {
      throw new Unreachable(at, faultCode(error, withinMs));
    }
  };
}

function faultCode(error: unknown, withinMs: number): string {
  const { name, cause } = error as { name?: string; cause?: unknown };
  if (name === "TimeoutError") return `none within ${withinMs / 1000} s`;
  // A name with several addresses fails with one error for each.
  const first = (cause as { errors?: unknown[] } | undefined)?.errors?.[0] ?? cause;
  const { code, message } = (first ?? error) as { code?: string; message?: string };
  return code ?? message ?? "unknown fault";
}
