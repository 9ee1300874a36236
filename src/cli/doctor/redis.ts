import { setTimeout as wait } from "node:timers/promises";
import type { Redis } from "ioredis";
import type { RedisFaultKind } from "../../model/delivery.ts";
import type { Secret } from "../../model/secret.ts";
import { type RedisFault, readRedisUrl, redisErrorText, redisPlaceText } from "../../net/redis.ts";
import { createRedisLinks, linkFaultOf } from "../../net/redis-link.ts";
import type { TlsSettings } from "../../net/tls.ts";
import { bytesText, type Finding, fail, ok, warn } from "./finding.ts";

/** Facts about the Redis of a queue or a stream. Null: the user may not read it. */
export interface RedisFacts {
  readonly version: string | null;
  readonly role: string | null;
  readonly usedBytes: number | null;
  /** 0: no limit. */
  readonly maxBytes: number | null;
  readonly policy: string | null;
  readonly appendOnly: boolean | null;
  /** The median of some round trips, in ms. */
  readonly pingMs: number;
}

/** How long all checks of one Redis may take. */
const timeoutMs = 5_000;
const pings = 20;
/** Above this share of `maxmemory`, writes may fail at any moment. */
const nearlyFull = 0.95;

const todos: Readonly<Record<RedisFaultKind, string>> = {
  unreachable: "does Redis run, and does the URL have the right host and port?",
  hung: "look at the process and its machine: swapping, a stopped process, a script or KEYS over everything",
  loading: "wait until it has read its files, and look again",
  clients: "raise maxclients, or find out who holds so many connections (CLIENT LIST)",
  cluster: "redis-cli --cluster check",
  credentials: "correct the user and the password in the URL; the user needs the commands and keys of the queue or stream (ACL)",
  database: "correct the number at the end of the URL, or give Redis more databases",
  stranger: "correct the URL; rediss:// is for TLS, whose certificate must be one that this machine trusts",
  full: "raise maxmemory, or keep fewer jobs and entries there",
  "read-only": "give the URL the address of the primary",
  disk: "make room on the disk of Redis; its log says more",
  replicas: "start the replicas that are missing (min-replicas-to-write)",
};

/** A TLS mismatch shows no error of its own: the server waits for more bytes, or closes the connection. */
function schemeHint({ kind, message }: RedisFault, hasTls: boolean): string {
  if (hasTls && (kind === "hung" || message.includes("no connection in time"))) return "; or has that port no TLS? Then redis://";
  if (!hasTls && message.startsWith("the connection to Redis was lost")) return "; or does that port want TLS? Then rediss://";
  return "";
}

/** The Redis of the route `name`, over a connection like that of its deliveries. Writes nothing. */
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
    return judgeDestination(where, facts);
  } catch (error) {
    const fault = linkFaultOf(error);
    if (fault === null) return [fail("destination", `${where}: ${redisErrorText(error)}`, "see what it is that answers there")];
    return [fail("destination", `${where}: ${fault.message}`, `${todos[fault.kind]}${schemeHint(fault, place?.tls === true)}`)];
  } finally {
    late.abort();
    link.close();
  }
}

async function readFacts(redis: Redis): Promise<RedisFacts> {
  const lines = (await infoOf(redis)).split("\r\n");
  const info = new Map(
    lines.flatMap((line) => (line.includes(":") ? [[line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1)]] : [])),
  );
  const number = (name: string): number | null => (info.has(name) ? Number(info.get(name)) : null);
  const took: number[] = [];
  for (let turn = 0; turn < pings; turn++) {
    const startedAt = performance.now();
    await redis.ping();
    took.push(performance.now() - startedAt);
  }
  return {
    version: info.get("redis_version") ?? null,
    role: info.get("role") ?? null,
    usedBytes: number("used_memory"),
    maxBytes: number("maxmemory"),
    policy: info.get("maxmemory_policy") ?? null,
    appendOnly: info.has("aof_enabled") ? info.get("aof_enabled") === "1" : null,
    pingMs: took.sort((a, b) => a - b)[pings / 2] ?? 0,
  };
}

/** Managed Redis services often forbid INFO. */
async function infoOf(redis: Redis): Promise<string> {
  try {
    return await redis.info();
  } catch (error) {
    if (error instanceof Error && /^(NOPERM|ERR)/.test(error.message)) return "";
    throw error;
  }
}

/** Risks of a Redis that holds queues or streams: rejected or lost deliveries. */
export function judgeDestination(where: string, facts: RedisFacts): Finding[] {
  const found = [...risks(where, facts)];
  if (found.length > 0) return found;
  const { version, pingMs } = facts;
  return [ok("destination", `${where} version ${version ?? "unknown"}, answers in ${pingMs.toFixed(1)} ms`)];
}

function* risks(where: string, { role, policy, usedBytes, maxBytes, appendOnly }: RedisFacts): Generator<Finding> {
  if (role === "slave") {
    yield fail("destination", `${where} is a read-only replica: nothing can be handed over`, "give the route the address of the primary");
  }
  if (policy !== null && policy !== "noeviction") {
    yield warn(
      "destination",
      `${where} evicts keys when it is full (maxmemory-policy ${policy}): jobs and streams among them`,
      "CONFIG SET maxmemory-policy noeviction",
    );
  }
  if (policy === "noeviction" && usedBytes !== null && maxBytes && usedBytes / maxBytes >= nearlyFull) {
    yield fail(
      "destination",
      `${where} is full, or will soon be (${bytesText(usedBytes)} of ${bytesText(maxBytes)}): it takes nothing then, and deliveries wait`,
      "raise maxmemory, or have less kept there: jobOptions.removeOnComplete of a queue, maxLength of a stream",
    );
  }
  if (appendOnly === false) {
    yield warn("destination", `${where} keeps no append-only file: what was handed over is lost when it ends`, "CONFIG SET appendonly yes");
  }
}
