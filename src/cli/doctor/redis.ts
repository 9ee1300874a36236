import { randomBytes } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import type { Cluster } from "ioredis";
import { type RedisFault, type RedisFaultKind, readRedisUrl, redisFaultOf } from "../../model/redis.ts";
import type { TlsSettings } from "../../model/tls.ts";
import { createRedisClient, type Redis, storeError } from "../../store/redis/client.ts";
import { redisAddress } from "../../store/redis/connection.ts";
import { infoFields, readPresences } from "../../store/redis/server.ts";
import type { RedisSettings } from "../../store/settings.ts";
import { type Finding, fail } from "./finding.ts";
import { judgeProcesses, judgeVersions } from "./processes.ts";
import { judgeDestination, judgeRedis, type Latency, type RedisFacts } from "./redis-judge.ts";

/** How long connecting, and then each command of a check, may take. */
const timeoutMs = 3_000;

const todos: Readonly<Record<RedisFaultKind, string>> = {
  unreachable: "does Redis run, and does the URL have the right host and port?",
  hung: "look at the process and its machine: swapping, a stopped process, a script or KEYS over everything",
  loading: "wait until it has read its files, and look again",
  clients: "raise maxclients, or find out who holds so many connections (CLIENT LIST)",
  cluster: "redis-cli --cluster check; with a Cluster, set storage.cluster: true",
  credentials: "correct the user and the password in the URL; the user needs every command on keys of its prefix (ACL)",
  database: "correct the number at the end of the URL, or give Redis more databases",
  stranger: "correct the URL; rediss:// is for TLS, whose certificate must be one that this machine trusts",
  full: "raise maxmemory, or keep events for less time (retention)",
  "read-only": "give the URL the address of the primary",
  disk: "make room on the disk of Redis; its log says more",
  replicas: "start the replicas that are missing (min-replicas-to-write)",
};

/** A TLS mismatch shows no error of its own: the server waits for more bytes, or closes the connection. */
function schemeHint({ kind, message }: RedisFault, { url }: RedisSettings): string {
  const hasTls = readRedisUrl(url.reveal())?.tls === true;
  if (hasTls && (kind === "hung" || message.includes("no connection in time"))) return "; or has that port no TLS? Then redis://";
  if (!hasTls && message.startsWith("the connection to Redis was lost")) return "; or does that port want TLS? Then rediss://";
  return "";
}

/** The Redis of `storage`: reachable, durable and fast enough; and which relay processes use it. */
export async function checkRedis(settings: RedisSettings, withinMs = timeoutMs): Promise<Finding[]> {
  const address = redisAddress(settings);
  const key = `{${settings.prefix}}:doctor:${randomBytes(6).toString("hex")}`;
  return withClient({ ...settings, commandTimeout: withinMs }, "redis", address, async (client) => {
    const server = await serverOf(client, key);
    const facts = await readFacts(server, key);
    const presences = await readPresences(client, settings.prefix);
    return [...judgeRedis(address, facts), judgeProcesses(presences), ...judgeVersions(presences)];
  });
}

/** The Redis of a queue or a stream. Nothing is written. */
export function checkRedisDestination(name: string, url: RedisSettings["url"], tls: TlsSettings | undefined): Promise<Finding[]> {
  const settings = { driver: "redis", url, prefix: "relay", commandTimeout: timeoutMs, cluster: false, tls } as const;
  const address = redisAddress(settings);
  return withClient(settings, "destination", `${name}: ${address}`, async (client) =>
    judgeDestination(name, address, await readFacts(client, null)),
  );
}

async function withClient(
  settings: RedisSettings,
  check: string,
  where: string,
  use: (client: Redis) => Promise<Finding[]>,
): Promise<Finding[]> {
  const client = createRedisClient(settings, "wamid-relay-doctor", "fail-fast");
  // The first error says more than those of the disconnect.
  let first: unknown = null;
  client.on("error", (error) => {
    first ??= error;
  });
  try {
    // ioredis retries sentinels forever.
    const late = wait(settings.commandTimeout, null, { ref: false }).then(() => {
      throw new Error("Command timed out");
    });
    await Promise.race([client.connect(), late]);
    late.catch(() => {});
    return await use(client);
  } catch (error) {
    const fault = redisFaultOf(first) ?? redisFaultOf(error);
    if (fault === null) return [fail(check, `${where}: ${storeError(error).message}`, "see what it is that answers there")];
    return [fail(check, `${where}: ${fault.message}`, `${todos[fault.kind]}${schemeHint(fault, settings)}`)];
  } finally {
    client.disconnect();
  }
}

const pings = 50;
const writes = 20;

/** The server that keeps `key`: of a Cluster its node. */
async function serverOf(client: Redis, key: string): Promise<Redis> {
  if (!client.isCluster) return client;
  for (const node of (client as unknown as Cluster).nodes("master")) {
    const isHere = await node.exists(key).then(
      () => true,
      () => false,
    );
    if (isHere) return node;
  }
  return client;
}

/** Reads a server's facts. `probeKey`: a key to write for a second; null: writes nothing. */
async function readFacts(server: Redis, probeKey: string | null): Promise<RedisFacts> {
  const info = infoFields((await maybe(server.info())) ?? "");
  const number = (name: string): number | null => (info.has(name) ? Number(info.get(name)) : null);
  const ping = await latency(pings, () => server.ping());
  const write = probeKey === null ? null : await latency(writes, (turn) => server.set(probeKey, "x".repeat(1024) + turn, "PX", 1000));
  return {
    version: info.get("redis_version") ?? null,
    role: info.get("role") ?? null,
    replicas: number("connected_slaves"),
    neededReplicas: numberOf(await setting(server, "min-replicas-to-write")),
    replicaLagSeconds: numberOf(await setting(server, "min-replicas-max-lag")),
    usedBytes: number("used_memory"),
    maxBytes: number("maxmemory"),
    policy: info.get("maxmemory_policy") ?? (await setting(server, "maxmemory-policy")),
    evicted: number("evicted_keys"),
    appendOnly: info.has("aof_enabled") ? info.get("aof_enabled") === "1" : null,
    appendSync: await setting(server, "appendfsync"),
    snapshots: await setting(server, "save").then((save) => (save === null ? null : save !== "")),
    failedWrites: (
      [
        ["aof_last_write_status", "append-only file"],
        ["aof_last_bgrewrite_status", "rewrite of the append-only file"],
        ["rdb_last_bgsave_status", "snapshot"],
      ] as const
    ).flatMap(([field, what]) => (info.get(field) === "err" ? [what] : [])),
    ping,
    write,
    skewMs: await maybe(skew(server)),
  };
}

/** Managed Redis services often forbid CONFIG. */
async function setting(server: Redis, name: string): Promise<string | null> {
  const answer = await maybe(server.config("GET", name));
  return Array.isArray(answer) && typeof answer[1] === "string" ? answer[1] : null;
}

const numberOf = (text: string | null): number | null => (text === null ? null : Number(text));

/** Null where the command is not allowed or not known. */
async function maybe<T>(reply: Promise<T>): Promise<T | null> {
  try {
    return await reply;
  } catch (error) {
    if (error instanceof Error && /^(NOPERM|ERR)/.test(error.message)) return null;
    throw error;
  }
}

async function latency(times: number, run: (turn: number) => Promise<unknown>): Promise<Latency> {
  const took: number[] = [];
  for (let turn = 0; turn < times; turn++) {
    const startedAt = performance.now();
    await run(turn);
    took.push(performance.now() - startedAt);
  }
  took.sort((a, b) => a - b);
  const at = (share: number): number => took[Math.min(took.length - 1, Math.floor(took.length * share))] ?? 0;
  return { p50: at(0.5), p99: at(0.99) };
}

async function skew(server: Redis): Promise<number> {
  const before = Date.now();
  const [seconds, micros] = await server.time();
  const after = Date.now();
  return Number(seconds) * 1000 + Number(micros) / 1000 - (before + after) / 2;
}
