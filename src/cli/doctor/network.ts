import { randomInt } from "node:crypto";
import type { Socket } from "node:net";
import type { AccountSettings, Settings } from "../../config/schema.ts";
import type { UrlDestinationSettings } from "../../deliver/settings.ts";
import type { Secret } from "../../model/secret.ts";
import { systemClock } from "../../model/system-clock.ts";
import { createConnector } from "../../net/connect.ts";
import { expiryOf, type TlsSettings, tlsKey } from "../../net/tls.ts";
import { createServiceClient } from "../../service/client.ts";
import { ServiceError } from "../../service/errors.ts";
import { createLimiter } from "../../service/limits/limiter.ts";
import { type Finding, fail, ok, skip, warn } from "./finding.ts";

/** Timeout of the service. All accounts are checked at once. */
const serviceWithinMs = 5_000;

/**
 * Whether the key of each account works: one `GET /me`, which changes nothing, and counts as one call against cap and
 * quota. Accounts without base URL or key are skipped (the settings' warnings cover half a pair).
 */
export async function checkServices(settings: Settings): Promise<Finding[]> {
  const checks = Object.entries(settings.accounts).map(([name, account]) => checkService(name, account));
  const found = (await Promise.all(checks)).flat();
  const uncalled = Object.entries(settings.accounts).flatMap(([name, { baseUrl, apiKey }]) => (baseUrl && apiKey ? [] : [name]));
  return uncalled.length === 0 ? found : [...found, skip("service", `${uncalled.join(", ")}: no baseUrl or no apiKey`)];
}

function quotaName(resource: string | null | undefined): string {
  if (resource == null) return "a monthly quota";
  return resource === "apiCalls" ? "the month's quota of calls" : `the monthly quota ${resource.slice(0, 40)}`;
}

async function checkService(name: string, account: AccountSettings): Promise<Finding[]> {
  const { baseUrl, apiKey } = account;
  if (baseUrl === undefined || apiKey === undefined) return [];
  const client = createServiceClient({
    baseUrl,
    apiKey,
    admission: createLimiter({ ...account, clock: systemClock }),
    clock: systemClock,
    random: () => randomInt(2 ** 32) / 2 ** 32,
    retry: { attempts: 1 },
    timeoutMs: serviceWithinMs,
    tls: account.tls,
  });
  const startedAt = performance.now();
  try {
    await client.me();
    return [ok("service", `${name}: the key works at ${baseUrl} (${Math.round(performance.now() - startedAt)} ms)`)];
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    return [judgeService(name, baseUrl, error)];
  } finally {
    await client.close();
  }
}

/** The fault in an account's settings that an error of `GET /me` indicates. */
function judgeService(name: string, baseUrl: string, { failure, status }: ServiceError): Finding {
  const found = (level: Finding["level"], what: string, todo: string): Finding => ({
    check: "service",
    level,
    message: `${name}: ${what}`,
    todo,
  });
  const key = `accounts.${name}.apiKey`;
  const url = `accounts.${name}.baseUrl`;
  switch (failure.kind) {
    case "unauthenticated":
      return found(
        "fail",
        `${baseUrl} refuses the API key (401): misspelled or revoked`,
        `correct ${key}; the account's settings at the service (API and webhooks) make a new one`,
      );
    case "blocked":
      return found(
        "fail",
        `${baseUrl} has blocked this address for a minute: too many calls with a bad key`,
        `find out what sends a bad key from here (see ${key}), and look again in a minute`,
      );
    case "plan":
      return found(
        "fail",
        `the account's plan does not permit the API (402)`,
        `${failure.cause?.suggested ?? "another plan"} would; ask for it at the service`,
      );
    case "quota":
      return found(
        "warn",
        `the key works, but ${quotaName(failure.cause?.resource)} is used up until ${new Date(failure.until).toISOString()}`,
        "wait, or change the plan at the service",
      );
    case "rate-limited":
      return found(
        "warn",
        `the key works, but the cap per minute is used up`,
        `who else calls for this account? accounts.${name}.share says how much of the cap is the relay's`,
      );
    case "unexpected":
    case "rejected":
      return found("warn", `${baseUrl} failed (${status}); whether the key works is not known`, "look again later");
    case "network":
      return found("fail", `no answer from ${baseUrl} (${failure.code})`, `check ${url}, the name, and the network`);
    case "timeout":
      return found("fail", `no answer from ${baseUrl} within ${failure.timeoutMs / 1000} s`, `check ${url} and the network`);
    case "malformed":
      return stranger(`${status}: ${failure.problem}`);
    default:
      return stranger(`${status}`);
  }

  function stranger(what: string): Finding {
    return found(
      "fail",
      `what answers at ${baseUrl} is not the service (${what})`,
      `check ${url}: the root of its API is {baseUrl}/api/v1`,
    );
  }
}

/** Timeout per destination. All are checked at once. */
const destinationWithinMs = 5_000;

export interface Skew {
  readonly name: string;
  readonly skewMs: number;
}

/** Whether each destination accepts connections, and how far its clock differs. */
export async function checkDestinations(settings: Settings): Promise<{ readonly findings: Finding[]; readonly skews: Skew[] }> {
  const destinations = [
    ...settings.routes.flatMap(({ name, to }) => ("url" in to ? [{ name, to }] : [])),
    ...Object.entries(settings.sources).flatMap(([name, source]) =>
      source.kind === "automation-request" && source.to !== undefined ? [{ name: `proxy:${name}`, to: source.to }] : [],
    ),
  ];
  // Routes may share a server, which is checked once.
  const probes = new Map<string, Promise<Probe>>();
  const shared = Promise.all(settings.routes.flatMap(({ name, to }) => ("redis" in to ? [checkRedis(name, to.redis, to.tls)] : [])));
  const probed = await Promise.all(
    destinations.map(async ({ name, to }) => {
      const { origin } = new URL(to.url);
      const key = `${origin} ${to.allowPrivate} ${tlsKey(to.tls)}`;
      const probe = probes.get(key) ?? probeDestination(to.url, to, destinationWithinMs);
      probes.set(key, probe);
      return { name, origin, probe: await probe };
    }),
  );
  return {
    findings: [...probed.map(judgeProbe), ...(await shared).flat()],
    skews: probed.flatMap(({ name, probe }) => (probe.reached && probe.skewMs !== null ? [{ name, skewMs: probe.skewMs }] : [])),
  };
}

/** Time enough to renew a certificate. */
const expiresSoonMs = 14 * 86_400_000;

/** Certificates of the settings that have expired, or soon will. */
export function judgeExpiries(
  { server, accounts, routes, sources }: Pick<Settings, "server" | "accounts" | "routes" | "sources">,
  now: number,
): Finding[] {
  const places = [
    ["server.tls", server.tls] as const,
    ["server.control.tls", server.control?.tls] as const,
    ...Object.entries(accounts).map(([name, { tls }]) => [`accounts.${name}.tls`, tls] as const),
    ...routes.map(({ name, to }) => [`tls of the route ${name}`, to.tls] as const),
    ...Object.entries(sources).map(
      ([name, source]) => [`sources.${name}.to.tls`, source.kind === "events" ? undefined : source.to?.tls] as const,
    ),
  ];
  return places.flatMap(([place, tls]) => {
    const at = expiryOf(tls);
    if (at === null || at > now + expiresSoonMs) return [];
    const todo = "renew it, and reload";
    const day = new Date(at).toISOString().slice(0, 10);
    return [
      at <= now ? fail("certificate", `${place}: expired on ${day}`, todo) : warn("certificate", `${place}: expires on ${day}`, todo),
    ];
  });
}

/** Loaded here: most settings have no Redis. */
async function checkRedis(name: string, url: Secret, tls: TlsSettings | undefined): Promise<Finding[]> {
  const { checkRedisDestination } = await import("./redis.ts");
  return checkRedisDestination(name, url, tls);
}

function judgeProbe({ name, origin, probe }: { readonly name: string; readonly origin: string; readonly probe: Probe }): Finding {
  const where = `${name}: ${origin}`;
  if (!probe.reached) {
    return fail("destination", `${where}: ${probe.error}`, "check the URL, the name, the network, and allowPrivate where it is your own");
  }
  const { status, tookMs } = probe;
  const log = "look at the log of the destination";
  if (status === null) return warn("destination", `${where} accepts connections, and does not answer a HEAD request`, log);
  if (status >= 500) return warn("destination", `${where} is reachable, and answers ${status} to a HEAD request`, log);
  // The path of the deliveries, their method and secret are not tried: only they show whether it takes events.
  return ok("destination", `${where} is reachable: connected in ${tookMs} ms`);
}

interface Reached {
  /** Of its answer to HEAD /; null: it did not answer. */
  readonly status: number | null;
  /** How far its clock is ahead of ours; null: unknown. */
  readonly skewMs: number | null;
}

type Probe = ({ readonly reached: true; readonly tookMs: number } & Reached) | { readonly reached: false; readonly error: string };

/**
 * Connects as a delivery would (name, guard against private addresses, TCP, TLS) and requests the headers
 * of `/`: no event is sent, and the path of the destination, which may be a secret, is not either.
 */
export function probeDestination(
  url: string,
  { allowPrivate, tls }: Pick<UrlDestinationSettings, "allowPrivate" | "tls">,
  withinMs: number,
): Promise<Probe> {
  const target = new URL(url);
  const startedAt = performance.now();
  return new Promise((resolve) => {
    let socket: Socket | null = null;
    let connectedAfter: number | null = null;
    const end = (probe: Probe): void => {
      clearTimeout(timer);
      resolve(probe);
      socket?.destroy();
    };
    const reached = (answer: Reached): void => end({ reached: true, tookMs: Math.round(connectedAfter ?? 0), ...answer });
    const timer = setTimeout(() => {
      if (connectedAfter !== null) reached({ status: null, skewMs: null });
      else end({ reached: false, error: `no connection within ${withinMs / 1000} s` });
    }, withinMs);
    socket = createConnector(target, { allowPrivate, tls })((error, connected) => {
      if (error !== null) {
        end({ reached: false, error: error.message });
        return;
      }
      connectedAfter = performance.now() - startedAt;
      // With TLS 1.3 a server refuses a client certificate only after the handshake.
      connected.once("error", ({ code = "", message }: NodeJS.ErrnoException) => {
        if (/^ERR_(SSL|TLS)/.test(code)) end({ reached: false, error: `TLS failed (${code}): ${message.slice(0, 300)}` });
      });
      // Some servers then close the connection without a word.
      if (target.protocol === "https:") {
        const error = "closed the connection after the TLS handshake without an answer: does it require a client certificate (tls)?";
        connected.once("close", () => connected.bytesRead === 0 && end({ reached: false, error }));
      }
      readHead(connected, target.host, reached);
    });
  });
}

/** Asks for the headers of `/`, and reads the status and the Date of the answer. */
function readHead(socket: Socket, host: string, done: (answer: Reached) => void): void {
  let head = "";
  const answered = (): void => {
    const status = /^HTTP\/\d\.\d (\d{3})/.exec(head)?.[1];
    const date = Date.parse(/\r\ndate: *([^\r]+)\r\n/i.exec(head)?.[1] ?? "");
    // The header has whole seconds: on average it is half a second old.
    done({ status: status === undefined ? null : Number(status), skewMs: Number.isNaN(date) ? null : date + 500 - Date.now() });
  };
  socket.setEncoding("latin1");
  socket.on("data", (chunk) => {
    head += chunk;
    if (head.includes("\r\n\r\n") || head.length > 16_384) answered();
  });
  socket.on("close", answered);
  socket.write(`HEAD / HTTP/1.1\r\nhost: ${host}\r\nuser-agent: wamid-relay-doctor\r\nconnection: close\r\n\r\n`);
}
