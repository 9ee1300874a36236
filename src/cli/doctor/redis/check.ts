import { randomBytes } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import { type RedisFault, type RedisFaultKind, redisFaultOf } from "../../../event/redis-fault.ts";
import { readRedisUrl } from "../../../event/redis-url.ts";
import { createRedisClient, type Redis } from "../../../store/redis/client.ts";
import { redisAddress } from "../../../store/redis/connection.ts";
import { keysOf } from "../../../store/redis/keys.ts";
import { type Presence, readPresences } from "../../../store/redis/presence.ts";
import { createReadUnplanned } from "../../../store/redis/read-unplanned.ts";
import { readTime } from "../../../store/redis/redis-clock.ts";
import { storeError } from "../../../store/redis/unavailable.ts";
import type { RedisSettings } from "../../../store/settings.ts";
import { type Finding, fail, ok, warn } from "../finding.ts";
import { readFacts, serverOf } from "./facts.ts";
import { judgeDestination, judgeRedis, judgeUnplanned } from "./judge.ts";

/** How long connecting, and then each command of a check, may take. */
const patienceMs = 3_000;

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

/** A server that hears TLS and has none, or the other way round, says nothing of it: it waits for more, or hangs up. */
function schemeHint({ kind, message }: RedisFault, { url }: RedisSettings): string {
  const hasTls = readRedisUrl(url.reveal())?.tls === true;
  if (hasTls && (kind === "hung" || message.includes("no connection in time"))) return "; or has that port no TLS? Then redis://";
  if (!hasTls && message.startsWith("the connection to Redis was lost")) return "; or does that port want TLS? Then rediss://";
  return "";
}

/** The Redis of `storage`: reached, safe for what it keeps, and fast enough; and which processes of the relay use it. */
export async function checkRedis(settings: RedisSettings, withinMs = patienceMs): Promise<Finding[]> {
  const address = redisAddress(settings);
  const key = `{${settings.prefix}}:doctor:${randomBytes(6).toString("hex")}`;
  return withClient({ ...settings, commandTimeout: withinMs }, "redis", address, async (client) => {
    const server = await serverOf(client, key);
    const facts = await readFacts(server, key);
    const presences = await readPresences(client, settings.prefix);
    const unplanned = await createReadUnplanned(keysOf(settings.prefix), { run: (command) => command(client) })();
    return [...judgeRedis(address, facts), judgeProcesses(presences), ...judgeUnplanned(unplanned, await readTime(client, key))];
  });
}

/** The Redis of a queue or a stream. Nothing is written. */
export function checkRedisDestination(name: string, url: RedisSettings["url"]): Promise<Finding[]> {
  const settings: RedisSettings = { driver: "redis", url, prefix: "relay", commandTimeout: patienceMs, cluster: false };
  const address = redisAddress(settings);
  return withClient(settings, "destination", `${name}: ${address}`, async (client) =>
    judgeDestination(name, address, await readFacts(client, null)),
  );
}

/** Without any that works, what is accepted waits. */
function judgeProcesses(presences: readonly Presence[]): Finding {
  const check = "processes";
  const count = (role: Presence["role"]): number => presences.filter((presence) => presence.role === role).length;
  const receiving = count("receive") + count("both");
  const working = count("work") + count("both");
  if (receiving + working === 0) return warn(check, "none is connected", "wamid-relay serve");
  const text = `${receiving} receive, ${working} work`;
  if (working === 0) return warn(check, `${text}: events are accepted, and nothing is delivered`, "wamid-relay serve --role work");
  if (receiving === 0) return warn(check, `${text}: no event can come in`, "wamid-relay serve --role receive");
  return ok(check, text);
}

async function withClient(
  settings: RedisSettings,
  check: string,
  where: string,
  use: (client: Redis) => Promise<Finding[]>,
): Promise<Finding[]> {
  const client = createRedisClient(settings, "wamid-relay-doctor", "fail-fast");
  // The first says more than those of the connection's end.
  let first: unknown = null;
  client.on("error", (error) => {
    first ??= error;
  });
  try {
    // Sentinels are asked for ever.
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
