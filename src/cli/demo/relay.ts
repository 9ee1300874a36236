import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { AnswerOf, RelayClient } from "../../client/relay-client.ts";
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

export const metaVerifyToken = "demo-verify-token";

/** Names of the environment variables that hold the demo's secrets. */
export const secretNames = { webhook: "DEMO_WEBHOOK_SECRET", token: "DEMO_RELAY_TOKEN", answered: "DEMO_ANSWERED_SECRET" } as const;

interface Places {
  readonly port: number;
  readonly databasePath: string;
  readonly downstreamUrl: string;
}

/** The settings but for sources and routes. */
function settingsHead({ port, databasePath }: Places): string {
  return `server: { host: 127.0.0.1, port: ${port}, shutdownTimeout: 3s }
storage: { path: ${JSON.stringify(databasePath)} }
control: { tokens: [{ name: demo, token: "\${${secretNames.token}}", scopes: [read, track, replay, pii] }] }
accounts: { main: {} }
`;
}

const destinationIn =
  ({ downstreamUrl }: Places) =>
  (path: string, more = "") =>
    `
    to:
      url: ${JSON.stringify(downstreamUrl + path)}
      allowPrivate: true${more}
      timeout: 2s
      retry: { schedule: [0s, 300ms, 600ms, 1s, 1s, 1s, 1s, 1s, 1s, 1s, 1s, 1s] }
      breaker: { failures: 5, pause: 500ms, longest: 1s }`;

/**
 * The settings file of the demo; the secrets come through the environment, as on a server. Retries and the breaker's pause are short, so that a failing
 * downstream and its recovery fit into seconds; everything else is as in production.
 */
export function demoSettings(places: Places): string {
  const destination = destinationIn(places);
  return `${settingsHead(places)}sources:
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

/** The same for Meta's webhooks: one consumer gets them as Meta sends them, the other the status of each message. */
export function metaDemoSettings(places: Places): string {
  const destination = destinationIn(places);
  const asMeta = `\n      signature: { preset: meta, secret: "\${${secretNames.answered}}" }`;
  return `${settingsHead(places)}sources:
  wa:
    format: meta
    verifyTokens: ["${metaVerifyToken}"]
    signature: { secrets: ["\${${secretNames.webhook}}"] }
    registerBy: callback-data
routes:
  - name: everything
    match: { events: ["*"] }${destination(everythingPath, asMeta)}
  - name: statuses
    match: { events: [message.status], tracked: true }
    emit: transitions
    payload: enriched${destination(statusesPath)}
`;
}

type Stats = AnswerOf<"getStats">;
export interface RelayStats extends Pick<Stats, "duplicates"> {
  readonly dispositions: Pick<Stats["dispositions"], "routed" | "filtered" | "ignored" | "quarantined" | "parked">;
  readonly deliveries: Pick<Stats["deliveries"], "waiting" | "held" | "delivered" | "dead">;
}

/** All stored events that are not quarantined. */
export function acceptedBy({ routed, filtered, ignored, parked }: RelayStats["dispositions"]): number {
  return routed + filtered + ignored + parked;
}

/** Registers each message that the service accepts. */
export function createRegistration(client: Pick<RelayClient, "trackAll">) {
  const wamids = new Set<string>();
  const waiting = new Readable({ objectMode: true, read: () => {} });
  const registering = (async () => {
    for await (const { error } of client.trackAll(waiting)) if (error !== undefined) throw new Error(error);
  })();
  // Awaited at the end.
  registering.catch(() => {});
  return {
    wamids,
    accepted(wamid: string): void {
      wamids.add(wamid);
      const { size } = wamids;
      waiting.push({ account: "main", wamid, reference: `order-${size}`, metadata: { shop: size % 2 === 0 ? "north" : "south" } });
    },
    /** Throws what a registration threw. */
    async finish(): Promise<void> {
      waiting.push(null);
      await registering;
    },
  };
}
