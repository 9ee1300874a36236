import type { FastifyInstance, LightMyRequestResponse } from "fastify";
import type { Scope, Settings } from "../config/schema.ts";
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
  /** Throws {@link CommandFailed} when no relay answers. Any HTTP status of a relay is data. */
  request(method: "GET" | "POST", path: string, body?: unknown, headers?: Readonly<Record<string, string>>): Promise<ControlAnswer>;
  /** Posts NDJSON; a 2xx answer's lines come as an array of what they parse to. */
  postLines(path: string, lines: string): Promise<ControlAnswer>;
  /** True when the command opened the store itself, because no relay runs. */
  readonly isStore?: true;
  close(): Promise<void>;
}

const ndjson = "application/x-ndjson";
const replayedHeader = "idempotent-replayed";

/** Longest wait for one answer. A replay answers after some seconds at most. */
const answerWithinMs = 60_000;

/** Connects to a relay over HTTP. */
export function connectRelay(url: string, token: string | null): ControlClient {
  async function call(
    method: "GET" | "POST",
    path: string,
    type: string | null,
    body: string | null,
    more: Readonly<Record<string, string>> = {},
  ): Promise<ControlAnswer> {
    const answer = await exchange(`${url}${path}`, {
      method,
      headers: {
        ...more,
        ...(token === null ? {} : { authorization: `Bearer ${token}` }),
        ...(type === null ? {} : { "content-type": type }),
      },
      ...(body === null ? {} : { body }),
    });
    if (typeof answer.json !== "object" || answer.json === null) {
      throw new CommandFailed(`what answers at ${url} is no wamid-relay (status ${answer.status} to ${method} ${path.split("?")[0]})`);
    }
    return answer;
  }
  return {
    request: (method, path, body, headers) =>
      body === undefined ? call(method, path, null, null, headers) : call(method, path, "application/json", JSON.stringify(body), headers),
    postLines: (path, lines) => call("POST", path, ndjson, lines),
    close: async () => {},
  };
}

/** Whether a relay listens at `url`. Sends no token: another server may listen on that port. */
export async function probeListener(url: string): Promise<"relay" | "nobody" | "stranger"> {
  try {
    const { json } = await exchange(`${url}/readyz`, { method: "GET" });
    return typeof json === "object" && json !== null && "ready" in json && "draining" in json ? "relay" : "stranger";
  } catch (error) {
    if (error instanceof Unreachable && error.refused) return "nobody";
    throw error;
  }
}

/** The address at which the relay of these settings can be reached from this machine; null when its port is any free one. */
export function ownAddress({ host, port }: Settings["server"]): string | null {
  if (port === 0) return null;
  const name = host === "0.0.0.0" ? "127.0.0.1" : host === "::" || host === "[::]" ? "::1" : host;
  return `http://${name.includes(":") && !name.startsWith("[") ? `[${name}]` : name}:${port}`;
}

/**
 * The store of a settings file that no relay holds just now, or that any number of them share: opened for this command.
 * Nothing is delivered, and the
 * messaging service is called only for the scopes `send` and `replay` (reconciliation).
 */
export async function openStore(settings: Settings, scope: Scope): Promise<ControlClient> {
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
      settings: { ...settings, control: { ...settings.control, tokens: [{ name: "cli", token: new Secret(token), scopes: [scope] }] } },
      log: { write: () => {}, end: async () => {} },
      dispatch: false,
      calls: scope === "send" || scope === "replay",
    }),
  );
  return { ...injector(relay.http, token), isStore: true, close: relay.close };
}

/** A read-only view of a store, beside relays that may use it. */
export async function openForLooking(settings: Settings): Promise<ControlClient> {
  const [{ createReadingApi }, { storeName }] = await Promise.all([import("../app/reading.ts"), import("../app/open-store.ts")]);
  let fault: unknown = null;
  const api = await opened(() =>
    createReadingApi(settings, (error) => {
      fault = error;
    }),
  );
  const { request, postLines } = injector(api.http, null);
  return {
    postLines,
    async request(method, path, body) {
      const answer = await request(method, path, body);
      if (fault !== null) throw new CommandFailed(`${storeName(settings.storage)} cannot be read: ${(fault as Error).message}`);
      return answer;
    },
    close: api.close,
  };
}

function injector(http: FastifyInstance, token: string | null): Pick<ControlClient, "request" | "postLines"> {
  const headers: Record<string, string> = token === null ? {} : { authorization: `Bearer ${token}` };
  return {
    async request(method, path, body, more = {}) {
      const payload = body === undefined ? {} : { payload: body as object };
      return parsed(await http.inject({ method, url: path, headers: { ...more, ...headers }, ...payload }));
    },
    postLines: async (path, lines) =>
      parsed(await http.inject({ method: "POST", url: path, headers: { ...headers, "content-type": ndjson }, payload: lines })),
  };
}

function parsed({ statusCode, headers, body }: LightMyRequestResponse): ControlAnswer {
  const isReplayed = headers[replayedHeader] === "true";
  return { status: statusCode, json: parsedBody(body, String(headers["content-type"])), isReplayed };
}

/** Throws SyntaxError when the body does not match its content type. */
function parsedBody(text: string, type: string): unknown {
  if (!type.startsWith(ndjson)) return JSON.parse(text) as unknown;
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as unknown);
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

  constructor(url: string, code: string) {
    super(`no answer from ${new URL(url).origin} (${code})`);
    this.refused = code === "ECONNREFUSED";
  }
}

/** `json` is undefined when the body cannot be parsed. */
async function exchange(url: string, init: RequestInit): Promise<ControlAnswer> {
  let answer: Response;
  let text: string;
  try {
    answer = await fetch(url, { ...init, redirect: "manual", signal: AbortSignal.timeout(answerWithinMs) });
    text = await answer.text();
  } catch (error) {
    throw new Unreachable(url, faultCode(error));
  }
  const isReplayed = answer.headers.get(replayedHeader) === "true";
  try {
    return { status: answer.status, json: parsedBody(text, answer.headers.get("content-type") ?? ""), isReplayed };
  } catch {
    return { status: answer.status, json: undefined, isReplayed };
  }
}

function faultCode(error: unknown): string {
  const { name, cause } = error as { name?: string; cause?: unknown };
  if (name === "TimeoutError") return `none within ${answerWithinMs / 1000} s`;
  // A name with several addresses fails with one error for each.
  const first = (cause as { errors?: unknown[] } | undefined)?.errors?.[0] ?? cause;
  const { code, message } = (first ?? error) as { code?: string; message?: string };
  return code ?? message ?? "unknown fault";
}
