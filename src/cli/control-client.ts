import type { Command } from "commander";
import type { FastifyInstance } from "fastify";
import type { Agent } from "undici";
import { pagesOf } from "../client/calls.ts";
import { RelayClient, RelayClientError } from "../client/relay-client.ts";
import { allEndpoints } from "../model/endpoints/table.ts";
import type { ListenTls } from "../net/tls.ts";
import { CommandFailed, isForUser } from "./io.ts";
import { refuseOptions } from "./options.ts";

export interface Reachable {
  /** Without a slash at its end. */
  readonly url: string;
  /** Of the port, where the address is that of the settings. */
  readonly tls?: ListenTls | undefined;
}

type Fetch = (url: string, init: RequestInit) => Promise<Response>;

interface ClientParts {
  readonly url: string;
  readonly fetch: Fetch;
  /** Tried in their order: the process may not know a token that the settings file has since. */
  readonly tokens: readonly string[];
  /** Personal data in clear, which the relay allows with the scope `pii` only. */
  readonly reveal: boolean | undefined;
  /** Of the store, where this process has opened it. */
  readonly close?: (() => Promise<void>) | undefined;
  readonly wanted?: AbortSignal | undefined;
}

/** The client of a command, over HTTP or directly on the store: same methods, same answers. */
export class ControlClient extends RelayClient {
  readonly url: string;
  /** True when the command opened the store itself, because no relay runs. */
  readonly isStore: boolean;
  readonly close: () => Promise<void>;
  /** Aborted when a relay that starts waits for the store that this process has opened. */
  readonly wanted: AbortSignal | undefined;

  constructor({
    url,
    fetch,
    tokens: [first, ...others],
    reveal = false,
    close,
    wanted,
  }: ClientParts) {
    const checked = async (path: string, init: RequestInit): Promise<Response> => {
      const send = (token: string | undefined) =>
        fetch(`${path}${path.includes("?") ? "&" : "?"}reveal=${reveal}`, {
          ...init,
          headers: {
            ...init.headers,
            ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
          },
        });
      let answer = await send(first);
      for (const token of others) if (answer.status === 401) answer = await send(token);
      if (answer.ok)
        checkAnswer(
          `${init.method} ${path.slice(url.length).split("?")[0]}`,
          answer.status,
          await answer.clone().text(),
        );
      return answer;
    };
    super({ url, fetch: checked as typeof globalThis.fetch });
    this.url = url;
    this.isStore = close !== undefined;
    this.close = close ?? (async () => {});
    this.wanted = wanted;
  }
}

const schemas = allEndpoints.map(({ method, path, answers }) => ({
  request: new RegExp(`^${method} ${path.replace(/:\w+/g, "[^/]+")}$`),
  answers,
}));

/** Throws {@link CommandFailed} for the answer of a relay of another version, or of no relay. */
function checkAnswer(request: string, status: number, text: string): void {
  const schema = schemas.find((each) => each.request.test(request))?.answers[status]?.schema;
  let answer: unknown;
  try {
    answer = JSON.parse(text);
  } catch {
    // A report in NDJSON, or what the client refuses.
    return;
  }
  const [issue] = schema?.safeParse(answer).error?.issues ?? [];
  if (issue === undefined) return;
  throw new CommandFailed(
    `the answer is not that of this version's relay (${issue.path.map(String).join(".")}: ${issue.message})`,
  );
}

export function connectRelay(
  at: Reachable,
  tokens: readonly string[],
  reveal?: boolean,
): ControlClient {
  return new ControlClient({ url: at.url, fetch: fetchOf(at), tokens, reveal });
}

/** `refuse` is called after each request: throws {@link CommandFailed} when the store failed. */
export function injected(
  http: FastifyInstance,
  parts: Omit<ClientParts, "url" | "fetch">,
  refuse?: () => void,
): ControlClient {
  const url = "http://store";
  const fetch: Fetch = async (path, { method, headers, body }) => {
    const answer = await http.inject({
      method: method as "GET",
      url: path.slice(url.length),
      headers: headers as Record<string, string>,
      ...(typeof body === "string" ? { payload: body } : {}),
    });
    refuse?.();
    return new Response(answer.payload, {
      status: answer.statusCode,
      headers: answer.headers as Record<string, string>,
    });
  };
  return new ControlClient({ url, fetch, ...parts });
}

export const probeWithinMs = 10_000;

export async function readPages<Next extends string | number, Row>(
  list: Parameters<typeof pagesOf<Next, { data: Row[]; next: Next | null }>>[0],
  limit: number,
  before: Next | undefined,
): Promise<{ data: Row[]; next: Next | null }> {
  const data: Row[] = [];
  let next: Next | null = null;
  for await (const page of pagesOf(list, limit, before)) {
    data.push(...page.data);
    next = page.next;
  }
  return { data, next };
}

/** The documented proxies answer 404 to everything except webhooks and health checks. */
function proxyHint(status: number): string {
  if (status !== 404) return "";
  return "; a proxy may pass on webhooks only: open an SSH tunnel to the control port (docs/how-to/deploy.md), then use --relay http://127.0.0.1:9090";
}

export function failureOf(error: unknown): unknown {
  if (!(error instanceof RelayClientError))
    return isForUser(error) ? new CommandFailed(error.message) : error;
  const { message, code, status, cause } = error;
  if (cause instanceof CommandFailed) return cause;
  if (code === "unauthorized")
    return new CommandFailed(
      `the relay refuses the token (${message}): use one of its control.tokens, and send it SIGHUP after you change them`,
    );
  // Only the service's own text, which may be in another language.
  if (code === "service_refused")
    return new CommandFailed(`the messaging service refuses it: ${message}`);
  return new CommandFailed(code === "bad_answer" ? `${message}${proxyHint(status)}` : message);
}

/** {@link failureOf}. Ends in wrong usage where the relay refuses what an option gave. */
export function failureFor(command: Command, error: unknown): unknown {
  if (
    error instanceof RelayClientError &&
    error.code === "bad_request" &&
    Array.isArray(error.details)
  )
    refuseOptions(
      command,
      error.details.filter((each) => typeof each?.path === "string"),
    );
  return failureOf(error);
}

/** Adds the next step to the refusal of a name that the relay does not know. */
export function orLookUp(step: string): (error: unknown) => never {
  return (error) => {
    throw error instanceof RelayClientError && error.code === "not_found"
      ? new CommandFailed(`${error.message}; ${step}`)
      : error;
  };
}

const hints: Readonly<Record<string, string>> = {
  ECONNREFUSED: ": start the relay there, or open the tunnel to it",
  ENOTFOUND: ": check the name",
};

class Unreachable extends CommandFailed {
  readonly refused: boolean;

  constructor({ url, tls }: Reachable, error: unknown) {
    const { cause } = error as { cause?: { errors?: unknown[] } };
    // A name with several addresses fails with one error for each.
    const { code, message = "unknown fault" } = (cause?.errors?.[0] ?? cause ?? error) as {
      code?: string;
      message?: string;
    };
    const hint = hints[code ?? ""] ?? (tls === undefined ? "" : tlsHint(code ?? "", tls));
    super(`no answer from ${new URL(url).origin} (${code ?? message})${hint}`);
    this.refused = code === "ECONNREFUSED";
  }
}

function tlsHint(code: string, { ca }: ListenTls): string {
  if (/CERT|SIGNATURE/.test(code))
    return "; its certificate is not that of the settings: if you renewed it, send SIGHUP to the relay";
  return ca !== undefined
    ? "; commands present the certificate of the port: does its tls.ca accept that?"
    : "";
}

export type Listener =
  | { readonly kind: "nobody" }
  | { readonly kind: "stranger" }
  | { readonly kind: "relay"; readonly instance: string; readonly version: string };

/** What listens there. Sends no token: another server may listen on that port. */
export async function probeListener(at: Reachable, timeoutMs: number): Promise<Listener> {
  try {
    const { instance, version } = await new RelayClient({
      url: at.url,
      fetch: fetchOf(at) as typeof fetch,
      timeoutMs,
    }).getHealth();
    if (typeof instance !== "string" || typeof version !== "string") return { kind: "stranger" };
    return { kind: "relay", instance, version };
  } catch (error) {
    const failure = failureOf(error);
    if (failure instanceof Unreachable && failure.refused) return { kind: "nobody" };
    if (error instanceof RelayClientError && error.code !== "no_answer")
      return { kind: "stranger" };
    throw failure;
  }
}

export async function readReadiness(
  at: Reachable,
): Promise<{ readonly status: number; readonly json: Readonly<Record<string, unknown>> }> {
  const answer = await fetchOf(at)(`${at.url}/readyz`, {
    signal: AbortSignal.timeout(probeWithinMs),
  });
  const json: unknown = await answer.json().catch(() => ({}));
  return { status: answer.status, json: json as Record<string, unknown> };
}

/** Throws {@link CommandFailed} when no answer begins. */
export function fetchOf(at: Reachable, options?: Agent.Options): Fetch {
  let own: Promise<typeof fetch> | undefined;
  return async (url, init) => {
    try {
      own ??=
        at.tls === undefined && options === undefined
          ? Promise.resolve(fetch)
          : ownFetch(at.tls, options);
      return await (await own)(url, init);
    } catch (error) {
      // The client reports its own timeout.
      throw init.signal?.aborted === true ? error : new Unreachable(at, error);
    }
  };
}

/** Node's own `fetch` takes no TLS settings. */
async function ownFetch(
  tls: ListenTls | undefined,
  options: Agent.Options = {},
): Promise<typeof fetch> {
  const [undici, { ownPortOptions }] = await Promise.all([
    import("undici"),
    import("../net/tls.ts"),
  ]);
  const dispatcher = new undici.Agent({
    allowH2: false,
    ...(tls && { connect: ownPortOptions(tls) }),
    ...options,
  });
  return ((url: string, init: RequestInit) =>
    undici.fetch(url, { ...(init as object), dispatcher })) as typeof fetch;
}
