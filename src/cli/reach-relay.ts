import { type Command, InvalidArgumentError } from "commander";
import type { FastifyInstance } from "fastify";
import type { ReadingSettings } from "../app/reading.ts";
import type { Scope, Settings, TokenSettings } from "../config/schema.ts";
import type { ListenTls } from "../model/tls.ts";
import { durationSchema } from "../model/units.ts";
import { type Answer, type AnswerName, parseAnswer } from "./answers.ts";

import { CommandFailed, type Io } from "./io.ts";
import { checkedOption, type RelayOptions, relayUrl, type TimeOptions } from "./options.ts";

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
  /** Whether the relay masked an answer, because the token lacks the scope `pii`. */
  isMasked?(): boolean;
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

/** What a command works on. Where no relay runs, `store` opens the store, `service` also calls the service, and `process` fails. */
type Subject = "store" | "service" | "process";

/**
 * Runs `use` on one relay: the one at `--relay`, else the one that runs with these settings, else the store in this process. The
 * store is only read for the scope `read`.
 */
export async function withRelay<T>(
  command: Command,
  options: RelayOptions,
  io: Io,
  scope: Scope,
  use: (client: ControlClient) => Promise<T>,
  subject: Subject = "store",
): Promise<T> {
  const client = remoteRelay(command, options, io) ?? (await ownRelay(options, io, scope, subject));
  try {
    return await use(client);
  } finally {
    await client.close();
  }
}

async function ownRelay(options: RelayOptions, io: Io, scope: Scope, subject: Subject): Promise<ControlClient> {
  const [{ loadParts }, { readPart }] = await Promise.all([import("../config/load.ts"), import("./settings-option.ts")]);
  const parts = loadParts(options.config, io.env, options.envFile);
  const storage = subject === "process" ? null : (parts?.storage ?? null);
  // One of the two is enough.
  const server = parts?.server ?? (storage === null ? readPart("server", options, io) : null);
  const found = await findRelay(server, storage);
  if (found.at !== null) {
    const { tokens = [], missingTokens = [] } = parts ?? {};
    const client = authorized(found.at, tokens, scope);
    if (client !== null && (await servesStore(client, storage))) return client;
    const { isVisible } = await import("./store-here.ts");
    // A file can be read beside its relay, and any number of processes write into a database.
    if (storage === null || !isVisible(storage) || (storage.driver === "sqlite" && scope !== "read"))
      throw new CommandFailed(noToken(options.config, scope, found.at.url, missingTokens));
  } else if (subject === "process")
    throw new CommandFailed(`${found.why}: start the relay with "wamid-relay serve", or give its address with --relay`);
  return openStore({ storage: storage ?? readPart("storage", options, io), scope, calls: subject === "service", found }, options, io);
}

interface FoundRelay {
  /** Null: no relay of this store answers, for the reason in `why`. */
  readonly at: Reachable | null;
  readonly why: string;
}

/** The relay at the address of the settings. Sends no token. */
async function findRelay(server: Settings["server"] | null, storage: Settings["storage"] | null): Promise<FoundRelay> {
  if (server === null) return { at: null, why: "server has a fault in the settings" };
  const at = controlAddress(server);
  if (at === null) return { at, why: "server.port is 0, so the relay's address is not known" };
  const nobody = (why: string): FoundRelay => ({ at: null, why });
  try {
    const found = await probeListener(at, probeWithinMs);
    if (found.kind === "nobody") return nobody(`nothing answers at ${at.url}`);
    if (found.kind === "stranger") return nobody(`what listens at ${at.url} is no wamid-relay`);
    const { isOtherHolder } = await import("./store-here.ts");
    if (storage !== null && (await isOtherHolder(storage, found.instance))) return nobody(`the relay at ${at.url} uses another store`);
    return { at, why: "" };
  } catch (error) {
    if (error instanceof CommandFailed) return nobody(error.message);
    throw error;
  }
}

/** A client with the tokens that have the scope, those with `pii` first. Null: there is none. */
export function authorized(at: Reachable, tokens: readonly TokenSettings[], scope: Scope): ControlClient | null {
  const usable = tokens
    .filter(({ scopes }) => scopes.includes(scope))
    .toSorted((a, b) => Number(b.scopes.includes("pii")) - Number(a.scopes.includes("pii")));
  if (usable.length === 0) return null;
  const clients = usable.map(({ token }) => connectRelay(at, token.reveal()));
  return {
    url: at.url,
    isMasked: () => clients.some((client) => client.isMasked?.() === true),
    async request(method, path, body, headers) {
      let answer: ControlAnswer | undefined;
      // The process may not know a token that the file has since.
      for (const client of clients) {
        answer = await client.request(method, path, body, headers);
        if (answer.status !== 401) break;
      }
      return answer as ControlAnswer;
    },
    close: async () => {},
  };
}

/** False: the process has no control API, or uses another database. Of a file, the process that answers was compared already. */
async function servesStore(client: ControlClient, storage: Settings["storage"] | null): Promise<boolean> {
  if (storage === null || storage.driver === "sqlite") return true;
  const { status, json } = await client.request("GET", "/v1/instance");
  if (status !== 200) return false;
  const { storePlace } = await import("../app/instance.ts");
  return readAnswer("instance", json).store.place === storePlace(storage);
}

/** Why no token of the settings can be used. `missing`: those that this command cannot read. */
export function noToken(config: string, scope: Scope, url: string, missing: readonly string[]): string {
  const why =
    missing.length === 0
      ? `no token in ${config} has the scope ${scope} (control.tokens); add one`
      : `this command cannot read the token of the relay: ${missing.join("; ")}. Run it with the relay's user and variables`;
  return `${why}, or use --relay ${url} with --token-env`;
}

/** The body of a 2xx answer. Throws {@link CommandFailed} with the relay's error message. */
export function expectDone({ status, json }: ControlAnswer): unknown {
  if (status >= 200 && status < 300) return json;
  const { error, code } = json as { error?: unknown; code?: unknown };
  if (typeof error !== "string") throw new CommandFailed(`answered ${status}, and not as a wamid-relay would`);
  if (code === "unauthorized") throw new CommandFailed(`the relay does not know the token: ${error}`);
  throw new CommandFailed(error);
}

function remoteRelay(command: Command, { relay, tokenEnv }: RelayOptions, io: Io): ControlClient | null {
  if (relay === undefined) return null;
  const url = relayUrl(command, relay);
  const token = io.env[tokenEnv];
  if (token === undefined || token === "")
    command.error(`error: the environment variable ${tokenEnv} is not set (--token-env names another)`);
  if (!/^[\x21-\x7e]+$/.test(token))
    throw new CommandFailed(`the environment variable ${tokenEnv} holds no token: it has characters that none has`);
  return connectRelay({ url: url.href.replace(/\/+$/, "") }, token);
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

/**
 * Reads pages until there are `limit` rows, or no more. `next` is for `--before`, null when nothing is left; `unseen` is the number
 * of oldest unplanned events that a search by wamid did not cover.
 */
export async function readPages<Name extends "events" | "deliveries">(
  client: Pick<ControlClient, "request">,
  name: Name,
  query: Readonly<Record<string, string | undefined>>,
  limit: number,
): Promise<Answer<Name> & { readonly unseen: number }> {
  const data: unknown[] = [];
  let before = query["before"];
  let unseen = 0;
  for (;;) {
    const parameters = { ...query, before, limit: String(Math.min(largestPage, limit - data.length)) };
    const given = Object.entries(parameters).filter((entry): entry is [string, string] => entry[1] !== undefined);
    const page = await call(client, name, "GET", `/v1/${name}?${new URLSearchParams(given)}`);
    // Earlier pages count too: this page continued with older events.
    if ("unseen" in page) unseen = Math.max(unseen, page.unseen);
    data.push(...page.data);
    if (page.next === null || data.length >= limit) return { data, next: page.next, unseen } as Answer<Name> & { unseen: number };
    before = String(page.next);
  }
}

/** The options as the API takes them, in ISO 8601. */
export function timeFilter(command: Command, { from, to, since }: TimeOptions, now: number): { from?: string; to?: string } {
  const start = since === undefined ? from : new Date(now - checkedOption(command, "since", since, duration)).toISOString();
  return { ...(start === undefined ? {} : { from: start }), ...(to === undefined ? {} : { to }) };
}

function duration(text: string): number {
  const parsed = durationSchema.safeParse(text);
  if (!parsed.success) throw new InvalidArgumentError("It must be a duration, such as 30m, 2h or 7d.");
  return parsed.data;
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
  readonly isMasked: boolean;
  readonly text: string;
}
type Exchange = (method: string, path: string, headers: Record<string, string>, body: string | undefined) => Promise<RawAnswer>;

/** Connects to a relay over HTTP. */
export function connectRelay(at: Reachable, token: string | null, withinMs = answerWithinMs): ControlClient {
  let isMasked = false;
  const { url } = at;
  const exchange = fetcher(at, withinMs);
  const noting: Exchange = async (...request) => {
    const answer = await exchange(...request);
    isMasked ||= answer.isMasked;
    return answer;
  };
  return { url, request: requester(noting, token, url), isMasked: () => isMasked, close: async () => {} };
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
    const answer = await exchange(method, path, headers, isLines ? body : JSON.stringify(body));
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

/** The address at which the relay of these settings can be reached from this machine; null when its port is any free one. */
export function ownAddress({ host, port, tls }: Pick<Settings["server"], "host" | "port" | "tls">): Reachable | null {
  if (port === 0) return null;
  const name = host === "0.0.0.0" ? "127.0.0.1" : host === "::" || host === "[::]" ? "::1" : host;
  const url = `${tls === undefined ? "http" : "https"}://${name.includes(":") && !name.startsWith("[") ? `[${name}]` : name}:${port}`;
  return { url, tls };
}

/** The same for the control API. */
export function controlAddress(server: Settings["server"]): Reachable | null {
  return ownAddress(server.control ?? server);
}

interface OpenOrder {
  readonly storage: Settings["storage"];
  readonly scope: Scope;
  /** Whether the messaging service is called. */
  readonly calls: boolean;
  readonly found: FoundRelay;
}

/** The store of the settings in this process. */
async function openStore({ storage, scope, calls, found: { at, why } }: OpenOrder, options: RelayOptions, io: Io): Promise<ControlClient> {
  const { holderOf, isVisible, openForWriting } = await import("./store-here.ts");
  // Created here, the file would belong to the user of this command.
  if (storage.driver === "sqlite" && !isVisible(storage))
    throw new CommandFailed(`there is no store at ${storage.path} yet; "wamid-relay serve" makes it`);
  const holder = at === null ? await holderOf(storage) : null;
  if (holder !== null && storage.driver === "sqlite")
    throw new CommandFailed(`${storage.path} is in use by ${holder}; ${why}: give the relay's address with --relay`);
  if (scope === "read") return readStore(await settingsForLooking(storage, options, io));
  const { http, token, close } = await openForWriting(await settingsForWriting(options, io, calls), scope, calls);
  return { isStore: true, request: requester(injector(http), token, storage.driver), close };
}

/** A client that reads the store in this process, beside relays that may use it. */
export async function readStore(settings: ReadingSettings): Promise<ControlClient> {
  const { openForReading } = await import("./store-here.ts");
  let fault: Error | null = null;
  const { http, close } = await openForReading(settings, (error) => {
    fault = error;
  });
  const request = requester(injector(http), null, settings.storage.driver);
  return {
    isStore: true,
    async request(...given) {
      const answer = await request(...given);
      if (fault === null) return answer;
      const { storeName } = await import("../app/open-store.ts");
      throw new CommandFailed(`${storeName(settings.storage)} cannot be read: ${(fault as Error).message}`);
    },
    close,
  };
}

/** Only `storage` must be without faults. Other faults are a note. */
async function settingsForLooking(storage: Settings["storage"], options: RelayOptions, io: Io): Promise<ReadingSettings> {
  const { readForLooking } = await import("./settings-option.ts");
  try {
    return readForLooking(options, io).settings;
  } catch (error) {
    if (!(error instanceof CommandFailed)) throw error;
    io.err(`note: ${options.config} has faults, which "wamid-relay config check" lists; this command reads only the store`);
    return { storage, routes: [], sources: {}, accounts: {} };
  }
}

/** The keys of the accounts may be missing only where the service is not called. */
async function settingsForWriting(options: RelayOptions, io: Io, calls: boolean): Promise<Settings> {
  const [{ readForLooking, readSettings }, { MissingSecret }] = await Promise.all([
    import("./settings-option.ts"),
    import("../model/secret.ts"),
  ]);
  const { settings } = readForLooking(options, io);
  const lacksKey = Object.values(settings.accounts).some(({ apiKey }) => apiKey instanceof MissingSecret);
  return lacksKey && calls ? readSettings(options, io) : settings;
}

function injector(http: FastifyInstance): Exchange {
  return async (method, url, headers, payload) => {
    const answer = await http.inject({ method: method as "GET", url, headers, ...(payload === undefined ? {} : { payload }) });
    const isReplayed = answer.headers[replayedHeader] === "true";
    return { status: answer.statusCode, type: String(answer.headers["content-type"]), isReplayed, isMasked: false, text: answer.body };
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
async function ownFetch(tls: ListenTls): Promise<typeof fetch> {
  const [undici, { ownPortOptions }] = await Promise.all([import("undici"), import("../model/tls.ts")]);
  const dispatcher = new undici.Agent({ allowH2: false, connect: ownPortOptions(tls) });
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
      const isMasked = answer.headers.has("x-wamid-relay-masked");
      return { status: answer.status, type: answer.headers.get("content-type") ?? "", isReplayed, isMasked, text: await answer.text() };
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
