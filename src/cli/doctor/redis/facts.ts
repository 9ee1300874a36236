import type { Cluster } from "ioredis";
import type { Redis } from "../../../store/redis/client.ts";
import { infoFields } from "../../../store/redis/server-version.ts";

/** How fast a round trip is, in ms. */
export interface Latency {
  readonly p50: number;
  readonly p99: number;
}

/** What one server says of itself. A null is something its user may not ask, or that this version does not tell. */
export interface RedisFacts {
  readonly version: string | null;
  readonly role: string | null;
  readonly replicas: number | null;
  /** Replicas that must be heard of within `replicaLagSeconds`, or it takes no writes; 0: none has to be. */
  readonly neededReplicas: number | null;
  readonly replicaLagSeconds: number | null;
  readonly usedBytes: number | null;
  /** 0: no limit. */
  readonly maxBytes: number | null;
  readonly policy: string | null;
  /** Keys thrown away for room since its start. */
  readonly evicted: number | null;
  readonly appendOnly: boolean | null;
  /** `always`, `everysec` or `no`. */
  readonly appendSync: string | null;
  /** Snapshots are asked for. */
  readonly snapshots: boolean | null;
  /** Which of its files could not be written the last time. */
  readonly failedWrites: readonly string[];
  readonly ping: Latency;
  /** Of a write that is on disk when it is answered, as far as Redis promises; null where nothing was written. */
  readonly write: Latency | null;
  /** How far its clock is ahead of ours, in ms. */
  readonly skewMs: number | null;
}

const pings = 50;
const writes = 20;

/** The server that keeps `key`: of a Cluster its node. */
export async function serverOf(client: Redis, key: string): Promise<Redis> {
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

/** Asks a server about itself. `probeKey`: a key to write to for a second; null: nothing is written. */
export async function readFacts(server: Redis, probeKey: string | null): Promise<RedisFacts> {
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

/** Services that run Redis for others often forbid CONFIG. */
async function setting(server: Redis, name: string): Promise<string | null> {
  const answer = await maybe(server.config("GET", name));
  return Array.isArray(answer) && typeof answer[1] === "string" ? answer[1] : null;
}

const numberOf = (text: string | null): number | null => (text === null ? null : Number(text));

/** Null where the command is not allowed or not known. */
async function maybe<T>(asked: Promise<T>): Promise<T | null> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof Error && /^(NOPERM|ERR)/.test(error.message)) return null;
    throw error;
  }
}

async function latency(times: number, ask: (turn: number) => Promise<unknown>): Promise<Latency> {
  const took: number[] = [];
  for (let turn = 0; turn < times; turn++) {
    const startedAt = performance.now();
    await ask(turn);
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
