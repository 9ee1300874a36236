import { randomInt } from "node:crypto";
import { request as httpRequest } from "node:http";
import type { Socket } from "node:net";
import type { AccountSettings, Settings } from "../../config/schema.ts";
import type { UrlDestinationSettings } from "../../deliver/settings.ts";
import type { Secret } from "../../model/secret.ts";
import { systemClock } from "../../model/system-clock.ts";
import { spanText } from "../../model/units.ts";
import { createConnector } from "../../net/connect.ts";
import { tlsKey } from "../../net/tls.ts";
import { createServiceClient } from "../../service/client.ts";
import { ServiceError } from "../../service/errors.ts";
import { planCaps } from "../../service/limits/caps.ts";
import { createLimiter } from "../../service/limits/limiter.ts";
import { type Finding, fail, ok, skip, warn } from "./finding.ts";

/** Timeout of each account and destination. All are checked at once. */
const withinMs = 5_000;

/**
 * Whether the key of each account works: one `GET /me`, which changes nothing, and counts as one call against cap and
 * quota. Accounts without base URL or key are skipped (the settings' warnings cover half a pair).
 */
export async function checkServices({ accounts }: Pick<Settings, "accounts">): Promise<Finding[]> {
  const uncalled: string[] = [];
  const found = Object.entries(accounts).map(([name, account]) => {
    const { baseUrl, apiKey } = account;
    if (baseUrl !== undefined && apiKey !== undefined) return checkService(name, account, baseUrl, apiKey);
    uncalled.push(name);
    return [];
  });
  const skipped = uncalled.length === 0 ? [] : [skip("service", `${uncalled.join(", ")}: no baseUrl or no apiKey`)];
  return [...(await Promise.all(found)).flat(), ...skipped];
}

async function checkService(name: string, account: AccountSettings, baseUrl: string, apiKey: Secret): Promise<Finding> {
  const client = createServiceClient({
    baseUrl,
    apiKey,
    admission: createLimiter({ ...account, clock: systemClock }),
    clock: systemClock,
    random: () => randomInt(2 ** 32) / 2 ** 32,
    retry: { attempts: 1 },
    timeoutMs: withinMs,
    tls: account.tls,
  });
  const startedAt = performance.now();
  try {
    await client.me();
    return ok("service", `${name}: the key works at ${baseUrl} (${Math.round(performance.now() - startedAt)} ms)`);
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    return assessService(name, account, error);
  } finally {
    await client.close();
  }
}

/** The fault in an account's settings that an error of `GET /me` indicates, and the remedy. */
function assessService(name: string, { baseUrl, plan }: AccountSettings, { failure, status }: ServiceError): Finding {
  const place = `accounts.${name}`;
  const failed = (message: string, todo: string) => fail("service", `${name}: ${message}`, todo);
  const warned = (message: string, todo: string) => warn("service", `${name}: ${message}`, todo);
  switch (failure.kind) {
    case "unauthenticated":
      return failed(
        `${baseUrl} refuses the API key (401): misspelled or revoked`,
        `correct ${place}.apiKey; the account's settings at the service (API and webhooks) make a new one`,
      );
    case "blocked":
      return failed(
        `${baseUrl} has blocked this address for a minute: too many calls with a bad key`,
        `find out what sends a bad key from here (see ${place}.apiKey), and look again in a minute`,
      );
    case "plan":
      return failed(
        "the account's plan does not permit the API (402)",
        `${failure.cause?.suggested ?? "another plan"} would; ask for it at the service`,
      );
    case "quota": {
      const resource = failure.cause?.resource ?? "";
      const quota = resource === "apiCalls" ? "the month's quota of calls" : `the monthly quota ${resource.slice(0, 40)}`.trimEnd();
      const until = new Date(failure.until).toISOString();
      return warned(`the key works, but ${quota} is used up until ${until}`, "wait, or change the plan at the service");
    }
    case "rate-limited": {
      const planned = planCaps[plan].requests;
      const isLower = failure.limit !== null && failure.limit < planned;
      return warned(
        `the key works, but the cap per minute is used up${isLower ? `: the service reports ${failure.limit}, your plan says ${planned}` : ""}`,
        `who else calls for this account? ${place}.share says how much of the cap is the relay's`,
      );
    }
    case "unexpected":
    case "rejected":
      return warned(`${baseUrl} failed (${status}); whether the key works is not known`, "look again later");
    case "network":
      return failed(`no answer from ${baseUrl} (${failure.code})`, `check ${place}.baseUrl, the name, and the network`);
    case "timeout":
      return failed(`no answer from ${baseUrl} within ${failure.timeoutMs / 1000} s`, `check ${place}.baseUrl and the network`);
    default: {
      const what = failure.kind === "malformed" ? `${status}: ${failure.problem}` : status;
      return failed(
        `what answers at ${baseUrl} is not the service (${what})`,
        `check ${place}.baseUrl: the root of its API is {baseUrl}/api/v1`,
      );
    }
  }
}

type Probe =
  | { readonly reached: false; readonly error: string }
  | {
      readonly reached: true;
      readonly tookMs: number;
      /** Of its answer to HEAD /; null: it did not answer. */
      readonly status: number | null;
      /** How far its clock is ahead of ours; null: unknown. */
      readonly skewMs: number | null;
    };

/** A route or proxying source, and what was found there. */
export interface Probed {
  readonly name: string;
  readonly findings: readonly Finding[];
  readonly skewMs: number | null;
}

/** Whether each destination accepts connections, and how far its clock differs. */
export function probeDestinations({ routes, sources }: Settings): Promise<readonly Probed[]> {
  const proxied = Object.entries(sources).flatMap(([name, source]) =>
    "to" in source && source.to !== undefined ? [{ name: `proxy:${name}`, to: source.to }] : [],
  );
  // Routes may share a server, which is checked once.
  const probes = new Map<string, Promise<Probe>>();
  const all = [...routes, ...proxied].map(async ({ name, to }): Promise<Probed> => {
    if ("redis" in to) {
      // Loaded here: most settings have no Redis.
      const { checkRedisDestination } = await import("./redis.ts");
      return { name, findings: await checkRedisDestination(name, to.redis, to.tls), skewMs: null };
    }
    const { origin } = new URL(to.url);
    const key = `${origin} ${to.allowPrivate} ${tlsKey(to.tls)}`;
    const probing = probes.get(key) ?? probeDestination(to.url, to, withinMs);
    probes.set(key, probing);
    const probe = await probing;
    return { name, findings: [assessProbe(`${name}: ${origin}`, probe)], skewMs: probe.reached ? probe.skewMs : null };
  });
  return Promise.all(all);
}

function assessProbe(where: string, probe: Probe): Finding {
  const check = "destination";
  const log = "look at the log of the destination";
  if (!probe.reached)
    return fail(check, `${where}: ${probe.error}`, "check the URL, the name, the network, and allowPrivate where it is your own");
  if (probe.status === null) return warn(check, `${where} accepts connections, and does not answer a HEAD request`, log);
  if (probe.status >= 500) return warn(check, `${where} is reachable, and answers ${probe.status} to a HEAD request`, log);
  // The path of the deliveries, their method and secret are not tried: only they show whether it takes events.
  return ok(check, `${where} is reachable: connected in ${probe.tookMs} ms`);
}

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
    let tookMs: number | null = null;
    const end = (probe: Probe): void => {
      clearTimeout(timer);
      resolve(probe);
      request.destroy();
      socket?.destroy();
    };
    const unreached = (error: string) => end({ reached: false, error });
    const reached = (status: number | null, skewMs: number | null = null) => end({ reached: true, tookMs: tookMs ?? 0, status, skewMs });
    const timer = setTimeout(() => {
      if (tookMs === null) unreached(`no connection within ${withinMs / 1000} s`);
      else reached(null);
    }, withinMs);
    const request = httpRequest({
      method: "HEAD",
      path: "/",
      headers: { host: target.host, "user-agent": "wamid-relay-doctor", connection: "close" },
      createConnection(_options, connected) {
        socket = createConnector(target, { allowPrivate, tls })((error, opened) => {
          if (error === null) tookMs = Math.round(performance.now() - startedAt);
          connected(error, opened as Socket);
        });
        return undefined;
      },
    });
    request.once("response", ({ statusCode = null, headers: { date = "" } }) => {
      const theirs = Date.parse(date);
      // The header has whole seconds: on average it is half a second old.
      reached(statusCode, Number.isNaN(theirs) ? null : theirs + 500 - Date.now());
    });
    request.on("error", ({ code = "", message }: NodeJS.ErrnoException) => {
      if (tookMs === null) unreached(message);
      // With TLS 1.3 a server refuses a client certificate only after the handshake.
      else if (/^ERR_(SSL|TLS)/.test(code)) unreached(`TLS failed (${code}): ${message.slice(0, 300)}`);
      // Some servers then close the connection without a word.
      else if (target.protocol === "https:" && socket?.bytesRead === 0)
        unreached("closed the connection after the TLS handshake without an answer: does it require a client certificate (tls)?");
      else reached(null);
    });
    request.end();
  });
}

/** Signatures with a timestamp fail at a few minutes of skew; this warns earlier. */
const toleratedMs = 30_000;

/** `newestEventAt`: when the newest event was received, in unix ms; null when there is none. */
export function assessClock(now: number, newestEventAt: number | null, probed: readonly Omit<Probed, "findings">[]): Finding[] {
  const check = "clock";
  const todo = "set this machine's clock by NTP (timedatectl)";
  const known = probed.flatMap(({ name, skewMs }) => (skewMs === null ? [] : [{ name, skewMs }]));
  const found = known
    .filter(({ skewMs }) => Math.abs(skewMs) > toleratedMs)
    .map(({ name, skewMs }) => {
      const way = `${spanText(skewMs)} ${skewMs > 0 ? "ahead of" : "behind"}`;
      return warn(check, `the clock of ${name} is ${way} this machine's: signatures may be refused as stale`, todo);
    });
  const ahead = (newestEventAt ?? 0) - now;
  if (ahead > toleratedMs)
    found.push(warn(check, `the newest event lies ${spanText(ahead)} in the future: the clock is behind, or was ahead`, todo));
  if (found.length > 0) return found;
  return [ok(check, known.length === 0 ? "no destination reported its time" : `agrees with ${known.length} of the destinations`)];
}
