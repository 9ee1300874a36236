import { randomInt } from "node:crypto";
import type { AccountSettings, Settings } from "../../config/schema.ts";
import { failureOf } from "../../deliver/destinations/url.ts";
import type { UrlDestinationSettings } from "../../deliver/settings.ts";
import { systemClock } from "../../model/clock.ts";
import type { Secret } from "../../model/secret.ts";
import { spanText } from "../../model/unit-text.ts";
import { createPool } from "../../net/connect.ts";
import { exchange } from "../../net/exchange.ts";
import { tlsKey } from "../../net/tls.ts";
import { createServiceClient } from "../../service/client.ts";
import { ServiceError, type ServiceFailure } from "../../service/errors.ts";
import { planCaps } from "../../service/limits/caps.ts";
import type { Plan } from "../../service/settings.ts";
import { type Finding, fail, ok, skip, warn } from "./finding.ts";

/** Timeout of each account and destination. All are checked at once. */
const withinMs = 5_000;

/**
 * Whether the key of each account works: one `GET /me`, which changes nothing, and counts as one
 * call against cap and quota. Accounts without base URL or key are skipped (the settings' warnings
 * cover half a pair).
 */
export async function checkServices({ accounts }: Pick<Settings, "accounts">): Promise<Finding[]> {
  const uncalled: string[] = [];
  const found = Object.entries(accounts).map(([name, account]) => {
    const { baseUrl, apiKey } = account;
    if (baseUrl !== undefined && apiKey !== undefined)
      return checkService(name, account, baseUrl, apiKey);
    uncalled.push(name);
    return [];
  });
  const skipped =
    uncalled.length === 0
      ? []
      : [skip("service", `${uncalled.join(", ")}: no baseUrl or no apiKey`)];
  return [...(await Promise.all(found)).flat(), ...skipped];
}

async function checkService(
  name: string,
  account: AccountSettings,
  baseUrl: string,
  apiKey: Secret,
): Promise<Finding> {
  const client = createServiceClient({
    baseUrl,
    apiKey,
    admission: { enter: async () => ({ settle: () => {} }) },
    clock: systemClock,
    random: () => randomInt(2 ** 32) / 2 ** 32,
    retry: { attempts: 1 },
    timeoutMs: withinMs,
    tls: account.tls,
  });
  const startedAt = performance.now();
  try {
    await client.me();
    return ok(
      "service",
      `${name}: the key works at ${baseUrl} (${Math.round(performance.now() - startedAt)} ms)`,
    );
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    const [make, todo, more = ""] = assessService(`accounts.${name}`, account.plan, error.failure);
    return make("service", `${name}: ${baseUrl}: ${error.message}${more}`, todo);
  } finally {
    await client.close();
  }
}

/** Level and remedy of an error of `GET /me`, and what its message does not say. */
function assessService(
  place: string,
  plan: Plan,
  failure: ServiceFailure,
): [typeof fail, todo: string, more?: string] {
  switch (failure.kind) {
    case "unauthenticated":
      return [
        fail,
        `correct ${place}.apiKey; the account's settings at the service (API and webhooks) make a new one`,
      ];
    case "blocked":
      return [
        fail,
        `find out what sends a bad key from here (see ${place}.apiKey), and look again in a minute`,
      ];
    case "plan":
      return [
        fail,
        `${failure.cause?.suggested ?? "another plan"} would; ask for it at the service`,
      ];
    case "quota":
      return [
        warn,
        "wait, or change the plan at the service",
        ` (${failure.cause?.resource?.slice(0, 40)}) until ${new Date(failure.until).toISOString()}`,
      ];
    case "rate-limited": {
      const more =
        failure.limit === null
          ? ""
          : `: the service reports ${failure.limit}, your plan says ${planCaps[plan].requests}`;
      return [
        warn,
        `see who else calls for this account; ${place}.share says how much of the cap is the relay's`,
        more,
      ];
    }
    case "unexpected":
    case "rejected":
      return [warn, "look again later: whether the key works is not known"];
    case "network":
    case "timeout":
      return [fail, `check ${place}.baseUrl, the name, and the network`];
    default:
      return [fail, `check ${place}.baseUrl: the root of its API is {baseUrl}/api/v1`];
  }
}

/** Of a route or proxying source. `skewMs`: how far its clock is ahead of ours; null: unknown. */
export interface Probed {
  readonly name: string;
  readonly findings: readonly Finding[];
  readonly skewMs: number | null;
}

export function probeDestinations({
  routes,
  sources,
}: Pick<Settings, "routes" | "sources">): Promise<readonly Probed[]> {
  const proxied = Object.entries(sources).flatMap(([name, source]) =>
    "to" in source && source.to !== undefined ? [{ name: `proxy:${name}`, to: source.to }] : [],
  );
  // Routes may share a server, which is checked once.
  const probes = new Map<string, ReturnType<typeof probe>>();
  const all = [...routes, ...proxied].map(async ({ name, to }): Promise<Probed> => {
    if ("redis" in to) {
      // Loaded here: most settings have no Redis.
      const { checkRedisDestination } = await import("./redis.ts");
      return { name, findings: await checkRedisDestination(name, to.redis, to.tls), skewMs: null };
    }
    const key = `${new URL(to.url).origin} ${to.allowPrivate} ${tlsKey(to.tls)}`;
    const probing = probes.get(key) ?? probe(to);
    probes.set(key, probing);
    const { finding, skewMs } = await probing;
    return { name, findings: [{ ...finding, message: `${name}: ${finding.message}` }], skewMs };
  });
  return Promise.all(all);
}

/**
 * Connects as a delivery would (name, guard against private addresses, TCP, TLS) and requests the
 * headers of `/`: no event is sent, and the path of the destination, which may be a secret, is not
 * either.
 */
export async function probe({
  url,
  allowPrivate,
  tls,
}: Pick<UrlDestinationSettings, "url" | "allowPrivate" | "tls">) {
  const check = "destination";
  const { origin, protocol } = new URL(url);
  const pool = createPool(new URL(url), {
    connections: 1,
    connectWithin: withinMs,
    allowPrivate,
    tls,
  });
  const startedAt = performance.now();
  const exchanged = await exchange(
    pool,
    { method: "HEAD", path: "/" },
    { timeoutMs: withinMs, maxBytes: 0 },
  );
  const tookMs = Math.round(performance.now() - startedAt);
  await pool.destroy(new Error("the probe is over"));
  const unreached = (
    why: string,
    todo = "check the URL, the name, the network, and allowPrivate where it is your own",
  ) => ({ finding: fail(check, `${origin}: ${why}`, todo), skewMs: null });
  const unwell = (what: string) =>
    warn(check, `${origin} ${what} a HEAD request`, "look at the log of the destination");
  if (exchanged.kind === "answered") {
    const { status, headers } = exchanged;
    const theirs = Date.parse(String(headers["date"]));
    // The header has whole seconds: on average it is half a second old.
    const skewMs = Number.isNaN(theirs) ? null : theirs + 500 - Date.now();
    // The path of the deliveries, their method and secret are not tried: only they show whether it
    // takes events.
    const found =
      status < 500
        ? ok(check, `${origin} is reachable: answered in ${tookMs} ms`)
        : unwell(`is reachable, and answers ${status} to`);
    return { finding: found, skewMs };
  }
  if (exchanged.kind === "failed") {
    const { error, text } = failureOf(exchanged.error);
    const tlsTodo =
      "renew its certificate, or set tls of the destination: ca for your own authority, cert and key for a client certificate";
    if (error === "tls") return unreached(text, tlsTodo);
    if (!exchanged.sent) return unreached(text);
    // With TLS 1.3 a server refuses a client certificate only after the handshake, and some then
    // close without a word.
    if (protocol === "https:")
      return unreached(`${text}: does it require a client certificate?`, tlsTodo);
  }
  if (!exchanged.sent) return unreached(`no connection within ${withinMs / 1000} s`);
  return { finding: unwell("accepts connections, and does not answer"), skewMs: null };
}

/** Signatures with a timestamp fail at a few minutes of skew; this warns earlier. */
const toleratedMs = 30_000;

/** `aheadMs`: how far the last event lies in the relay's future; 0: in the past. */
export function assessClock(
  probed: readonly Omit<Probed, "findings">[],
  aheadMs: number,
): Finding[] {
  const todo = "set this machine's clock by NTP (timedatectl)";
  const known = probed.flatMap(({ name, skewMs }) => (skewMs === null ? [] : [{ name, skewMs }]));
  const found = known
    .filter(({ skewMs }) => Math.abs(skewMs) > toleratedMs)
    .map(({ name, skewMs }) => {
      const way = `${spanText(skewMs)} ${skewMs > 0 ? "ahead of" : "behind"}`;
      const message = `the clock of ${name} is ${way} this machine's: signatures may be refused as stale`;
      return warn("clock", message, todo);
    });
  if (aheadMs > toleratedMs) {
    const message = `the last event lies ${spanText(aheadMs)} in the future: the clock was set back, and retries wait`;
    found.push(warn("clock", message, todo));
  }
  if (found.length > 0) return found;
  return [
    ok(
      "clock",
      known.length === 0
        ? "no destination reported its time"
        : `agrees with ${known.length} of the destinations`,
    ),
  ];
}
