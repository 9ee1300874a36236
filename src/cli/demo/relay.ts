import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import type { MessageRegistration } from "../../client/requests.ts";
import { CommandFailed } from "../io.ts";

/** Longest graceful stop in milliseconds; the relay's own limit is 3 s. */
const stopWithinMs = 6_000;
const readyWithinMs = 60_000;

/**
 * Starts `wamid-relay serve` as a child and waits until it is ready. Its output goes to `logPath`. `ended` aborts when it ends by
 * itself; the reason is a {@link CommandFailed} with its last log lines. `stop` stops it gracefully, then kills it; twice is safe.
 */
export async function startRelay(options: {
  readonly settingsPath: string;
  readonly logPath: string;
  readonly url: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}): Promise<{ readonly ended: AbortSignal; stop(): Promise<void> }> {
  const { settingsPath, logPath, url, env, signal } = options;
  // The entry is beside this folder, in a checkout and in dist alike.
  const entry = fileURLToPath(new URL("../wamid-relay.js", import.meta.url));
  const log = openSync(logPath, "w");
  const child = spawn(process.execPath, [entry, "serve", "--config", settingsPath], { stdio: ["ignore", log, log], env: { ...env } });
  closeSync(log);
  const ended = new AbortController();
  let stopping = false;
  const lastWords = (why: string) => new CommandFailed(`${why}; its last lines:\n${tail(logPath, 15)}`);
  child.once("error", (error) => ended.abort(new CommandFailed(`the relay could not be started: ${error.message}`)));
  child.once("exit", (code, by) => {
    if (!stopping) ended.abort(lastWords(`the relay ended unexpectedly (${by ?? `exit code ${code}`})`));
  });
  const stop = async () => {
    stopping = true;
    await endChild(child);
  };
  try {
    await waitReady(url, AbortSignal.any([signal, ended.signal]), () =>
      lastWords(`the relay was not ready within ${readyWithinMs / 1000} s`),
    );
  } catch (error) {
    await stop();
    throw error;
  }
  return { ended: ended.signal, stop };
}

/** A free port. If another process takes it first, the relay fails to start and the demo ends. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("a TCP server without a port");
  return address.port;
}

async function waitReady(url: string, signal: AbortSignal, late: () => Error): Promise<void> {
  const deadline = Date.now() + readyWithinMs;
  for (;;) {
    signal.throwIfAborted();
    const isReady = await fetch(`${url}/readyz`, { signal: AbortSignal.any([signal, AbortSignal.timeout(1_000)]) }).then(
      (answer) => answer.ok,
      () => false,
    );
    if (isReady) return;
    if (Date.now() > deadline) throw late();
    await sleep(50);
  }
}

async function endChild(child: ChildProcess): Promise<void> {
  const isOver = () => child.exitCode !== null || child.signalCode !== null || child.pid === undefined;
  if (isOver()) return;
  const over = once(child, "exit");
  child.kill("SIGTERM");
  const kill = setTimeout(() => child.kill("SIGKILL"), stopWithinMs);
  await over;
  clearTimeout(kill);
}

function tail(path: string, lines: number): string {
  return readFileSync(path, "utf8").trimEnd().split("\n").slice(-lines).join("\n");
}

/** Paths of the downstream, one per route. */
export const everythingPath = "/everything";
export const answeredPath = "/answered";
export const failuresPath = "/failures";
export const statusesPath = "/statuses";
/** The statuses that the route to `answeredPath` takes. */
const answeredStatuses = ["delivered", "read"] as const;

/** Names of the environment variables that hold the demo's secrets. */
export const secretNames = { webhook: "DEMO_WEBHOOK_SECRET", token: "DEMO_RELAY_TOKEN", answered: "DEMO_ANSWERED_SECRET" } as const;

/**
 * The settings file of the demo; the secrets come through the environment, as on a server. Retries and the breaker's pause are short, so that a failing
 * downstream and its recovery fit into seconds; everything else is as in production.
 */
export function demoSettings(places: { readonly port: number; readonly databasePath: string; readonly downstreamUrl: string }): string {
  const { port, databasePath, downstreamUrl } = places;
  const destination = (path: string, more = "") => `
    to:
      url: ${JSON.stringify(downstreamUrl + path)}
      allowPrivate: true${more}
      timeout: 2s
      retry: { schedule: [0s, 300ms, 600ms, 1s, 1s, 1s, 1s, 1s, 1s, 1s, 1s, 1s] }
      breaker: { failures: 5, pause: 500ms, longest: 1s }`;
  return `server: { host: 127.0.0.1, port: ${port}, shutdownTimeout: 3s }
storage: { path: ${JSON.stringify(databasePath)} }
control: { tokens: [{ name: demo, token: "\${${secretNames.token}}", scopes: [read, track, replay, pii] }] }
accounts: { main: {} }
sources:
  main: { account: main, kind: events, signature: { service: acme, secrets: ["\${${secretNames.webhook}}"] } }
tracking: { unknown: park, parkFor: 4s }
routes:
  - name: everything
    match: { events: ["*"] }${destination(everythingPath)}
  - name: answered
    match: { events: [message.status], statuses: [${answeredStatuses.join(", ")}] }${destination(answeredPath, `\n      secret: "\${${secretNames.answered}}"`)}
  - name: failures
    match: { events: [message.status], statuses: [failed], tracked: true }
    emit: transitions
    payload: enriched${destination(failuresPath)}
  - name: statuses
    match: { events: [message.status], tracked: true }
    emit: transitions
    payload: enriched${destination(statusesPath)}
`;
}

/** What the demo reads of `GET /v1/stats`. */
const statsSchema = z.looseObject({
  dispositions: z.looseObject({
    routed: z.number(),
    filtered: z.number(),
    ignored: z.number(),
    quarantined: z.number(),
    parked: z.number(),
  }),
  duplicates: z.number(),
  deliveries: z.looseObject({ waiting: z.number(), held: z.number(), delivered: z.number(), dead: z.number() }),
});
export type RelayStats = z.infer<typeof statsSchema>;

/** All stored events that are not quarantined. */
export function acceptedBy({ routed, filtered, ignored, parked }: RelayStats["dispositions"]): number {
  return routed + filtered + ignored + parked;
}

export type TrackedMessage = { readonly [Fact in "account" | "wamid" | "reference" | "metadata"]: NonNullable<MessageRegistration[Fact]> };
export type RelayApi = ReturnType<typeof createRelayApi>;

const mostInOneCall = 1_000;

/** The calls of the relay's control API that the demo makes. */
export function createRelayApi(url: string, token: string) {
  const call = async (path: string, init: RequestInit): Promise<unknown> => {
    const answer = await fetch(url + path, { ...init, headers: { authorization: `Bearer ${token}`, "content-type": "application/json" } });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${init.method ?? "GET"} ${path} was answered ${answer.status}: ${text.slice(0, 300)}`);
    return text === "" ? null : JSON.parse(text);
  };
  return {
    /** Throws an Error with the relay's answer. */
    stats: async (signal: AbortSignal) => statsSchema.parse(await call("/v1/stats", { signal })),
    sentInConsole: async (signal: AbortSignal) => z.looseObject({ sent: z.number() }).parse(await call("/v1/quality", { signal })).sent,
    async track(messages: readonly TrackedMessage[], signal: AbortSignal): Promise<void> {
      for (let from = 0; from < messages.length; from += mostInOneCall) {
        const body = JSON.stringify(messages.slice(from, from + mostInOneCall));
        await call("/v1/messages/track", { method: "POST", body, signal });
      }
    },
  };
}

/** One in this many is registered only after its first status was posted, so that events are parked until then. */
const lateEvery = 8;

/** Registers each message, most at once and some late. Messages that arrive during a call go into the next one. */
export function createRegistration(track: (messages: readonly TrackedMessage[]) => Promise<void>) {
  const messages = new Map<string, TrackedMessage>();
  const late = new Map<string, TrackedMessage>();
  const seen = new Set<string>();
  let gathered: TrackedMessage[] = [];
  let running: Promise<void> | null = null;
  let failure: { readonly error: unknown } | null = null;
  const flush = async (): Promise<void> => {
    while (gathered.length > 0) {
      const some = gathered;
      gathered = [];
      await track(some);
    }
  };
  const register = (message: TrackedMessage): void => {
    gathered.push(message);
    running ??= flush()
      .catch((error: unknown) => {
        failure ??= { error };
      })
      .finally(() => {
        running = null;
      });
  };
  return {
    /** All that were accepted. */
    messages,
    /** The service accepted a message. */
    accepted(wamid: string): void {
      const number = messages.size + 1;
      const message = { account: "main", wamid, reference: `order-${number}`, metadata: { shop: number % 2 === 0 ? "north" : "south" } };
      messages.set(wamid, message);
      if (number % lateEvery === 0 && !seen.has(wamid)) late.set(wamid, message);
      else register(message);
    },
    /** A status of a message was posted to the relay. */
    posted(wamid: string): void {
      // The answer to the send can arrive after the first status.
      seen.add(wamid);
      const message = late.get(wamid);
      if (message === undefined) return;
      late.delete(wamid);
      register(message);
    },
    /** Registers whatever is left. Throws what a registration threw. */
    async finish(): Promise<void> {
      for (const message of late.values()) register(message);
      late.clear();
      await running;
      if (failure !== null) throw failure.error;
    },
  };
}
