import { type Command, InvalidArgumentError } from "commander";
import type { FastifyInstance } from "fastify";
import type { SettingsParts } from "../config/load.ts";
import type { Scope, Settings } from "../config/schema.ts";
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
  /** Only where the settings were read. */
  readonly names?: SettingsNames;
  close(): Promise<void>;
}

/** Where a relay listens. */
export interface Reachable {
  /** Without a slash at its end. */
  readonly url: string;
  /** Of the port, where the address is that of the settings. */
  readonly tls?: ListenTls | undefined;
}

/** Names that the settings give. */
export interface SettingsNames {
  readonly sources: readonly string[];
  readonly accounts: readonly string[];
  /** With those of proxied exchanges. */
  readonly routes: readonly string[];
}

type SettingsForLooking = Pick<Settings, "storage" | "routes" | "sources" | "accounts">;

function namesOf({ sources, accounts, routes }: SettingsForLooking): SettingsNames {
  const proxied = Object.entries(sources).flatMap(([name, source]) =>
    "mode" in source && source.mode === "proxy" ? [`proxy:${name}`] : [],
  );
  return { sources: Object.keys(sources), accounts: Object.keys(accounts), routes: [...routes.map(({ name }) => name), ...proxied] };
}

/**
 * Runs `use` on the relay at `--relay`, else on the store of the settings, beside relays that may run. Only `storage` must be
 * without faults. `prefersRelay`: on the running relay, if there is one with a token for it, because it knows more than its file.
 */
export async function withReading<T>(
  command: Command,
  options: RelayOptions,
  io: Io,
  use: (client: ControlClient) => Promise<T>,
  prefersRelay = false,
): Promise<T> {
  const remote = remoteRelay(command, options, io);
  if (remote !== null) return using(remote, use);
  const running = prefersRelay ? await runningToRead(options, io) : null;
  return using(running ?? (await openForLooking(await settingsForLooking(options, io))), use);
}

/**
 * Runs `use` on the relay at `--relay`, else on the one of the settings when it runs, else on its file; on its Redis, where
 * the settings have one, whether a relay runs or not.
 * The token is the first of the settings that has `scope`, if possible with `pii`.
 */
export async function withWriting<T>(
  command: Command,
  options: RelayOptions,
  io: Io,
  scope: Scope,
  use: (client: ControlClient) => Promise<T>,
): Promise<T> {
  return using(remoteRelay(command, options, io) ?? (await ownRelay(options, io, scope)), use);
}

/**
 * Runs `use` on the running process: at `--relay`, else at the address of the settings. Faults in other parts of the settings do not
 * matter, nor does a token of the file that the process does not know yet, if it knows another one with the scope.
 */
export async function withRunning<T>(
  command: Command,
  options: RelayOptions,
  io: Io,
  scope: Scope,
  use: (client: ControlClient) => Promise<T>,
): Promise<T> {
  const remote = remoteRelay(command, options, io);
  if (remote !== null) return using(remote, use);
  const found = await partsOf(options, io);
  const relay = await runningRelay(found, options, scope);
  if (relay !== null) return using(relay, use);
  throw new CommandFailed(
    found.at === null
      ? "server.port is 0, so the relay's address is not known: give it with --relay"
      : `no relay runs at ${found.at.url}; "wamid-relay serve" starts one`,
  );
}

/** The running relay on the file of the settings. Null in any doubt: its file then has the answer. */
async function runningToRead(options: RelayOptions, io: Io): Promise<ControlClient | null> {
  try {
    const found = await partsOf(options, io);
    if (found.storage?.driver !== "sqlite") return null;
    const relay = await runningRelay({ ...found, tokens: found.tokens.filter(({ scopes }) => scopes.includes("pii")) }, options, "read");
    if (relay === null) return null;
    const { fileIdentity } = await import("../app/instance.ts");
    const { store } = await call(relay, "instance", "GET", "/v1/instance");
    return store.file !== null && store.file === fileIdentity(found.storage.path) ? relay : null;
  } catch (error) {
    if (error instanceof CommandFailed) return null;
    throw error;
  }
}

/** Throws {@link CommandFailed} with the faults of `storage`. Other faults are a note. */
async function settingsForLooking(options: RelayOptions, io: Io): Promise<SettingsForLooking> {
  const { readForLooking, readPart } = await import("./settings-option.ts");
  try {
    return readForLooking(options, io).settings;
  } catch (error) {
    if (!(error instanceof CommandFailed)) throw error;
    const storage = readPart("storage", options, io);
    io.err(`note: ${options.config} has faults, which "wamid-relay config check" lists; this command reads only the store`);
    return { storage, routes: [], sources: {}, accounts: {} };
  }
}

interface OwnRelay extends Pick<SettingsParts, "storage" | "tokens" | "missingTokens"> {
  /** Of the control API; null when the port is any free one. */
  readonly at: Reachable | null;
}

/** Throws {@link CommandFailed} with the faults of `server`. */
async function partsOf({ config, envFile }: RelayOptions, io: Io): Promise<OwnRelay> {
  const [{ loadParts }, { readPart }] = await Promise.all([import("../config/load.ts"), import("./settings-option.ts")]);
  const { storage = null, tokens = [], missingTokens = [] } = loadParts(config, io.env, envFile) ?? {};
  return { at: controlAddress(readPart("server", { config, envFile }, io)), storage, tokens, missingTokens };
}

/** Null: nothing listens there. */
async function runningRelay(
  { at, tokens, missingTokens }: OwnRelay,
  { config }: RelayOptions,
  scope: Scope,
): Promise<ControlClient | null> {
  const kind = at === null ? "nobody" : (await probeListener(at, probeWithinMs)).kind;
  if (at === null || kind === "nobody") return null;
  const { url } = at;
  if (kind === "stranger") throw new CommandFailed(`what listens at ${url} is no wamid-relay; give the relay's address with --relay`);
  const usable = tokens
    .filter(({ scopes }) => scopes.includes(scope))
    .toSorted((a, b) => Number(b.scopes.includes("pii")) - Number(a.scopes.includes("pii")));
  if (usable.length === 0) throw new CommandFailed(noToken(config, scope, url, missingTokens));
  const clients = usable.map(({ token }) => connectRelay(at, token.reveal()));
  return {
    url,
    isMasked: () => clients.some((client) => client.isMasked?.() === true),
    async request(method, path, body, headers) {
      let answer: ControlAnswer | undefined;
      for (const client of clients) {
        answer = await client.request(method, path, body, headers);
        if (answer.status !== 401) break;
      }
      return answer as ControlAnswer;
    },
    close: async () => {},
  };
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

/** Loaded here: with `--relay` no settings are read. */
async function settingsOf(options: RelayOptions, io: Io): Promise<Settings> {
  const { readSettings } = await import("./settings-option.ts");
  return readSettings(options, io);
}

async function using<T>(client: ControlClient, use: (client: ControlClient) => Promise<T>): Promise<T> {
  try {
    return await use(client);
  } finally {
    await client.close();
  }
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

async function ownRelay(options: RelayOptions, io: Io, scope: Scope): Promise<ControlClient> {
  const found = await partsOf(options, io);
  // A shared store is any process's to write into; what listens here may only work, and have no control API.
  const relay = found.storage !== null && found.storage.driver !== "sqlite" ? null : await runningRelay(found, options, scope);
  if (relay !== null) return relay;
  const settings = await settingsOf(options, io);
  try {
    return await openStore(settings, scope);
  } catch (error) {
    if (error instanceof CommandFailed && error.message.includes(" is in use by ")) {
      const where = found.at === null ? "server.port is 0, so its address is not known" : `nothing answers at ${found.at.url}`;
      throw new CommandFailed(`${error.message}; ${where}: give it with --relay`);
    }
    throw error;
  }
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
const probeWithinMs = 10_000;

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

/**
 * The store of a settings file that no relay holds just now, or that any number of them share: opened for this command.
 * Nothing is delivered, and the messaging
 * service is called only for the scopes `send` and `replay` (reconciliation).
 */
async function openStore(settings: Settings, scope: Scope): Promise<ControlClient> {
  const { existsSync } = await import("node:fs");
  const { storage } = settings;
  // Created here, the file would belong to the user of this command.
  if (storage.driver === "sqlite" && !existsSync(storage.path)) {
    throw new CommandFailed(`there is no store at ${storage.path} yet; "wamid-relay serve" makes it`);
  }
  const [{ randomBytes }, { createRelay }, { Secret }] = await Promise.all([
    import("node:crypto"),
    import("../app/relay.ts"),
    import("../model/secret.ts"),
  ]);
  const token = randomBytes(24).toString("hex");
  const relay = await opened(() =>
    createRelay({
      settings: {
        ...settings,
        control: { ...settings.control, tokens: [{ name: "cli", token: new Secret(token), scopes: [scope, "pii"] }] },
      },
      log: { write: () => {}, end: async () => {} },
      dispatch: false,
      calls: scope === "send" || scope === "replay",
    }),
  );
  return { request: requester(injector(relay.http), token, storage.driver), isStore: true, close: relay.close };
}

/** A read-only view of a store, beside relays that may use it. */
async function openForLooking(settings: SettingsForLooking): Promise<ControlClient> {
  const [{ createReadingApi }, { storeName }] = await Promise.all([import("../app/reading.ts"), import("../app/open-store.ts")]);
  let fault: unknown = null;
  const api = await opened(() =>
    createReadingApi(settings, (error) => {
      fault = error;
    }),
  );
  const request = requester(injector(api.http), null, settings.storage.driver);
  return {
    names: namesOf(settings),
    async request(method, path, body) {
      const answer = await request(method, path, body);
      if (fault !== null) throw new CommandFailed(`${storeName(settings.storage)} cannot be read: ${(fault as Error).message}`);
      return answer;
    },
    close: api.close,
  };
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

async function opened<T>(open: () => Promise<T>): Promise<T> {
  const { StoreRefused } = await import("../store/port.ts");
  try {
    return await open();
  } catch (error) {
    if (error instanceof StoreRefused) throw new CommandFailed(error.message, { cause: error });
    throw error;
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
