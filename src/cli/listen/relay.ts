import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { Agent } from "undici";
import { ownPortOptions } from "../../model/tls.ts";
import { durationSchema } from "../../model/units.ts";
import { connectRelay, proxyHint, type Reachable } from "../control-client.ts";
import { CommandFailed, type Io } from "../io.ts";
import { checkedOption, type RelayOptions, relayUrl, type SettingsOptions, time } from "../options.ts";
import { controlAddress, noToken, tokensWith } from "../reach-relay.ts";
import type { Opened } from "./follow.ts";

export interface RelayAddress extends Reachable {
  /** Read again for each connection, so that a new token counts. Throws {@link CommandFailed} when there is none. */
  token(): string;
}

type AddressOptions = RelayOptions & { readonly tokenFile?: string | undefined; readonly token?: string | undefined };

/** The relay at `--relay`, with the token given, or the one of the settings, with its first token that may listen. */
export async function relayAddress(command: Command, options: AddressOptions, io: Io): Promise<RelayAddress> {
  const { relay, tokenEnv, tokenFile, token } = options;
  if (relay === undefined) return ownRelay(options, io);
  const url = relayUrl(command, relay);
  const read = (): string => {
    if (token !== undefined) return token;
    if (tokenFile !== undefined) return fileText(tokenFile);
    return io.env[tokenEnv] ?? "";
  };
  if (token === undefined && tokenFile === undefined && read() === "")
    command.error(`error: the environment variable ${tokenEnv} is not set (--token-env names another, --token-file a file)`);
  const checked = (): string => {
    const text = read();
    if (!/^[\x21-\x7e]+$/.test(text))
      throw new CommandFailed("what was given as the token is none: it is empty, or has characters that none has");
    return text;
  };
  checked();
  return { url: url.href.replace(/[?#].*$/, "").replace(/\/+$/, ""), token: checked };
}

/** With `--relay` no settings are read, nor what reads them loaded. */
async function ownRelay({ config, envFile }: SettingsOptions, io: Io): Promise<RelayAddress> {
  const [{ readPart }, { loadParts }] = await Promise.all([import("../settings-option.ts"), import("../../config/load.ts")]);
  const at = controlAddress(readPart("server", { config, envFile }, io));
  if (at === null) throw new CommandFailed("server.port is 0, so the relay's address is not known: give it with --relay");
  const token = (): string => {
    const { tokens = [], missingTokens = [] } = loadParts(config, io.env, envFile) ?? {};
    const [found] = tokensWith("listen", tokens);
    if (found === undefined) throw new CommandFailed(noToken(config, "listen", at.url, missingTokens));
    return found.token.reveal();
  };
  token();
  return { ...at, token };
}

function fileText(path: string): string {
  try {
    return readFileSync(path, "utf8").trim();
  } catch (error) {
    throw new CommandFailed(`the token's file cannot be read: ${(error as Error).message}`);
  }
}

/** Longest wait for a connection, and for the first bytes of an answer. */
const timeoutMs = 20_000;

/**
 * Opens `GET /v1/listen`, on a connection of its own: one that was cut somewhere on the way is not used again. The body
 * is read only as fast as it is taken. Rejects with the connection's error.
 */
export async function openStream(relay: RelayAddress, query: URLSearchParams, after: number | null, signal: AbortSignal): Promise<Opened> {
  const agent = new Agent({
    allowH2: false,
    connect: { ...(relay.tls && ownPortOptions(relay.tls)), timeout: timeoutMs },
    headersTimeout: timeoutMs,
    // Silence is the watchdog's, which knows of sleep.
    bodyTimeout: 0,
  });
  const close = (): void => void agent.destroy().catch(() => {});
  try {
    const { statusCode, headers, body } = await agent.request({
      origin: relay.url,
      path: `${new URL(relay.url).pathname.replace(/\/$/, "")}/v1/listen?${query}`,
      method: "GET",
      headers: {
        accept: "text/event-stream",
        authorization: `Bearer ${relay.token()}`,
        ...(after === null ? {} : { "last-event-id": String(after) }),
      },
      signal,
    });
    if (statusCode === 200 && String(headers["content-type"]).startsWith("text/event-stream")) return { ok: true, body, close };
    const text = await body.text().catch(() => "");
    close();
    return refused(relay.url, statusCode, text, Number(headers["retry-after"]));
  } catch (error) {
    close();
    throw error;
  }
}

function refused(url: string, status: number, text: string, retryAfter: number): Opened {
  const message = errorOf(text);
  const why =
    message === null
      ? `what answers at ${url} is no wamid-relay that can be listened to (status ${status})${proxyHint(status)}`
      : `the relay says: ${message}`;
  // A relay that starts, or a proxy before it, answers 5xx.
  return { ok: false, why, retryAfterMs: Number.isFinite(retryAfter) ? retryAfter * 1000 : null, lasting: status < 500 && status !== 429 };
}

function errorOf(text: string): string | null {
  try {
    const { error } = JSON.parse(text) as { error?: unknown };
    return typeof error === "string" ? error : null;
  } catch {
    return null;
  }
}

/** Pause between two updates: each is a commit at the relay. */
const everyMs = 50;
const afterFailureMs = 2_000;

/**
 * Stores the newest position of a name at the relay, one update at a time. `store` rejects when that failed; after `over` is
 * aborted there are no more background updates.
 */
export function createCursor(parts: { store(seq: number): Promise<void>; wait(ms: number): Promise<void>; readonly over: AbortSignal }) {
  const { store, wait, over } = parts;
  let wanted = -1;
  let known = -1;
  let isStoring = false;

  async function once(): Promise<boolean> {
    const seq = wanted;
    try {
      await store(seq);
      known = Math.max(known, seq);
      return true;
    } catch {
      return false;
    }
  }

  async function run(): Promise<void> {
    isStoring = true;
    while (known < wanted && !over.aborted) await wait((await once()) ? everyMs : afterFailureMs);
    isStoring = false;
  }

  return {
    /** Everything up to this event is done with. */
    moved(seq: number): void {
      if (seq <= wanted) return;
      wanted = seq;
      if (!isStoring) void run();
    },
    /** Makes one last update; resolves whether or not it succeeds. */
    async flush(): Promise<void> {
      if (known < wanted) await once();
    },
  };
}

export async function storeCursor(relay: RelayAddress, name: string, seq: number): Promise<void> {
  const { status } = await connectRelay(relay, relay.token(), 10_000).request("POST", `/v1/listen/cursors/${name}`, { seq });
  if (status >= 300) throw new CommandFailed(`the relay does not keep the cursor (status ${status})`);
}

/** `--since`: a duration in ms, or a time in ISO 8601. */
export function checkedSince(command: Command, text: string): number | string {
  return checkedOption(command, "since", text, since);
}

function since(text: string): number | string {
  const duration = durationSchema.safeParse(text);
  return duration.success ? duration.data : time(text);
}
