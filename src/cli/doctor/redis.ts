import { setTimeout as wait } from "node:timers/promises";
import type { Redis } from "ioredis";
import type { Secret } from "../../model/secret.ts";
import {
  createRedisLinks,
  linkFaultOf,
  type RedisFault,
  readRedisUrl,
  redisErrorText,
  redisPlaceText,
} from "../../net/redis.ts";
import type { TlsSettings } from "../../net/tls.ts";
import { bytesText } from "../output.ts";
import { type Finding, fail, ok, warn } from "./finding.ts";

const check = "destination";
const timeoutMs = 5_000;

/**
 * A TLS mismatch shows no error of its own: the server waits for more bytes, or closes the
 * connection.
 */
function schemeHint({ kind, message }: RedisFault, hasTls: boolean): string {
  if (hasTls && (kind === "hung" || message.includes("no connection in time")))
    return "; or has that port no TLS? Then redis://";
  if (!hasTls && message.startsWith("the connection to Redis was lost"))
    return "; or does that port want TLS? Then rediss://";
  return "";
}

export async function checkRedisDestination(
  name: string,
  url: Secret,
  tls: TlsSettings | undefined,
  withinMs = timeoutMs,
): Promise<Finding[]> {
  const place = readRedisUrl(url.reveal());
  const where = `${name}: ${place === null ? "redis" : redisPlaceText(place)}`;
  const link = createRedisLinks()(url, tls);
  const late = new AbortController();
  try {
    const facts = await Promise.race([
      link.ready().then(readFacts),
      wait(withinMs, null, { ref: false, signal: late.signal }).then(() => {
        throw new Error("Command timed out");
      }),
    ]);
    return assessDestination(where, facts);
  } catch (error) {
    const fault = linkFaultOf(error);
    const todo = `correct the URL, or look at that Redis and its log${fault === null ? "" : schemeHint(fault, place?.tls === true)}`;
    return [fail(check, `${where}: ${fault?.message ?? redisErrorText(error)}`, todo)];
  } finally {
    late.abort();
    link.close();
  }
}

/** Null: the user may not read it. */
export type RedisFacts = Awaited<ReturnType<typeof readFacts>>;

async function readFacts(redis: Redis) {
  const startedAt = performance.now();
  await redis.ping();
  const pingMs = performance.now() - startedAt;
  const text = await redis.info().catch((error: Error) => {
    // Managed Redis services often forbid INFO.
    if (/^(NOPERM|ERR)/.test(error.message)) return "";
    throw error;
  });
  const factOf = (name: string): string | null =>
    new RegExp(`^${name}:(.*?)\\r?$`, "m").exec(text)?.[1] ?? null;
  const numberOf = (name: string): number | null =>
    factOf(name) === null ? null : Number(factOf(name));
  const appendOnly = factOf("aof_enabled");
  return {
    version: factOf("redis_version"),
    mode: factOf("redis_mode"),
    role: factOf("role"),
    usedBytes: numberOf("used_memory"),
    /** 0: no limit. */
    maxBytes: numberOf("maxmemory"),
    policy: factOf("maxmemory_policy"),
    appendOnly: appendOnly === null ? null : appendOnly === "1",
    pingMs,
  };
}

/** Above this share of `maxmemory`, writes may fail at any moment. */
const nearlyFull = 0.95;

export function assessDestination(where: string, facts: RedisFacts): Finding[] {
  const { version, mode, role, policy, usedBytes, maxBytes, appendOnly, pingMs } = facts;
  const found: Finding[] = [];
  if (role === "slave")
    found.push(
      fail(
        check,
        `${where} is a read-only replica: nothing can be handed over`,
        "give the route the address of the primary",
      ),
    );
  // Not a failure: one node with every key works, as do proxies in front of a Cluster.
  if (mode === "cluster") {
    const message = `${where} is a node of a Cluster: it refuses keys of other nodes, and deliveries wait`;
    found.push(warn(check, message, "use a single Redis"));
  }
  if (policy !== null && policy !== "noeviction") {
    const message = `${where} evicts keys when it is full (maxmemory-policy ${policy}): jobs and streams among them`;
    found.push(warn(check, message, "CONFIG SET maxmemory-policy noeviction"));
  }
  if (
    policy === "noeviction" &&
    usedBytes !== null &&
    maxBytes &&
    usedBytes / maxBytes >= nearlyFull
  ) {
    const used = `${bytesText(usedBytes)} of ${bytesText(maxBytes)}`;
    const todo =
      "raise maxmemory, or have less kept there: jobOptions.removeOnComplete of a queue, maxLength of a stream";
    found.push(
      fail(
        check,
        `${where} is full, or will soon be (${used}): it takes nothing then, and deliveries wait`,
        todo,
      ),
    );
  }
  if (appendOnly === false) {
    const message = `${where} keeps no append-only file: what was handed over is lost when it ends`;
    found.push(warn(check, message, "CONFIG SET appendonly yes"));
  }
  return found.length > 0
    ? found
    : [ok(check, `${where} version ${version ?? "unknown"}, answers in ${pingMs.toFixed(1)} ms`)];
}
