import { spanText } from "../../model/span-text.ts";
import { isOldVersion, leastVersion } from "../../store/redis/server.ts";
import { bytesText, type Finding, fail, ok, warn } from "./finding.ts";

/** How fast a round trip is, in ms. */
export interface Latency {
  readonly p50: number;
  readonly p99: number;
}

/** Facts about one server. Null: the user may not read it, or this version does not report it. */
export interface RedisFacts {
  readonly version: string | null;
  readonly role: string | null;
  readonly replicas: number | null;
  /** Replicas that must report within `replicaLagSeconds`, or it rejects writes; 0: none. */
  readonly neededReplicas: number | null;
  readonly replicaLagSeconds: number | null;
  readonly usedBytes: number | null;
  /** 0: no limit. */
  readonly maxBytes: number | null;
  readonly policy: string | null;
  /** Keys evicted since its start. */
  readonly evicted: number | null;
  readonly appendOnly: boolean | null;
  /** `always`, `everysec` or `no`. */
  readonly appendSync: string | null;
  /** Snapshots are configured. */
  readonly snapshots: boolean | null;
  /** Which of its files could not be written the last time. */
  readonly failedWrites: readonly string[];
  readonly ping: Latency;
  /** Of a write that Redis reports as durable; null: nothing was written. */
  readonly write: Latency | null;
  /** How far its clock is ahead of ours, in ms. */
  readonly skewMs: number | null;
}

/** The median within which a provider of webhooks wants its answer (FACTS.md, "The domain"): accepting takes two round trips of it. */
const providerWaitsMs = 250;
const roundTrips = 2;
/** Above this, Redis alone takes a fifth of that time. */
const slowMs = providerWaitsMs / 5;
/** Processes use the clock of Redis, so the difference does not affect them. */
const toleratedSkewMs = 1_000;

/** Risks of the Redis that stores the relay's events. */
export function judgeRedis(address: string, facts: RedisFacts): Finding[] {
  return [
    judgeServer(address, facts),
    ...judgeMemory(facts),
    judgeDurability(facts),
    ...judgeFiles(facts),
    judgeReplicas(facts),
    judgeLatency(facts.ping, facts.write),
    judgeSkew(facts.skewMs),
  ].filter((finding) => finding !== null);
}

/** Above this share of `maxmemory`, writes may fail at any moment. */
const nearlyFull = 0.95;

/** Risks of a Redis that holds queues or streams: rejected or lost deliveries. `name`: the route. */
export function judgeDestination(name: string, address: string, facts: RedisFacts): Finding[] {
  const where = `${name}: ${address}`;
  const found = [...destinationRisks(where, facts)];
  if (found.length > 0) return found;
  return [ok("destination", `${where} version ${facts.version ?? "unknown"}, answers in ${latencyText(facts.ping)}`)];
}

function* destinationRisks(where: string, facts: RedisFacts): Generator<Finding> {
  if (facts.role === "slave") {
    yield fail("destination", `${where} is a read-only replica: nothing can be handed over`, "give the route the address of the primary");
  }
  if (facts.policy !== null && facts.policy !== "noeviction") {
    yield warn(
      "destination",
      `${where} evicts keys when it is full (maxmemory-policy ${facts.policy}): jobs and streams among them`,
      "CONFIG SET maxmemory-policy noeviction",
    );
  }
  if (facts.policy === "noeviction" && facts.usedBytes !== null && facts.maxBytes && facts.usedBytes / facts.maxBytes >= nearlyFull) {
    yield fail(
      "destination",
      `${where} is full, or will soon be (${bytesText(facts.usedBytes)} of ${bytesText(facts.maxBytes)}): it takes nothing then, and deliveries wait`,
      "raise maxmemory, or have less kept there: jobOptions.removeOnComplete of a queue, maxLength of a stream",
    );
  }
  if (facts.appendOnly === false) {
    yield warn("destination", `${where} keeps no append-only file: what was handed over is lost when it ends`, "CONFIG SET appendonly yes");
  }
}

function judgeServer(address: string, { version, role }: RedisFacts): Finding {
  if (version === null)
    return warn("redis", `${address} does not report its version (INFO is not allowed)`, `it must be ${leastVersion} or newer`);
  if (isOldVersion(version)) return fail("redis", `${address} is version ${version}`, `the relay needs ${leastVersion} or newer`);
  if (role === "slave") {
    return fail("redis", `${address} is a read-only replica: every event is answered 503`, "give storage.url the address of the primary");
  }
  return ok("redis", `${address} version ${version}`);
}

function* judgeMemory({ policy, usedBytes, maxBytes, evicted }: RedisFacts): Generator<Finding> {
  const check = "redis memory";
  const evicts = policy !== null && policy !== "noeviction";
  if (evicts) {
    yield fail(
      check,
      `maxmemory-policy is ${policy}: when it is full, Redis silently evicts accepted events, statuses and deliveries`,
      "CONFIG SET maxmemory-policy noeviction (and in its configuration); then a full Redis refuses, and the relay answers 503",
    );
  }
  if ((evicted ?? 0) > 0) {
    yield fail(check, `Redis has evicted ${evicted} keys since its start: some may have been the relay's`, "wamid-relay audit");
  }
  if (usedBytes === null || maxBytes === null) {
    yield warn(check, "it does not report how much it uses (INFO is not allowed)", "watch its memory where it is run");
  } else if (maxBytes === 0) {
    yield warn(
      check,
      `${bytesText(usedBytes)} used, and no limit (maxmemory 0): at the end of the machine's memory the system kills Redis`,
      "set maxmemory to no more than 60 % of the memory it has: rewriting its files needs the rest",
    );
  } else {
    const share = usedBytes / maxBytes;
    const text = `${bytesText(usedBytes)} of ${bytesText(maxBytes)} used (${Math.round(share * 100)} %)`;
    const todo = "raise maxmemory, or keep events for less time (retention)";
    if (share >= nearlyFull) yield fail(check, `${text}: events will soon be answered 503`, todo);
    else if (share >= 0.75) yield warn(check, text, todo);
    else if (!evicts && (evicted ?? 0) === 0) yield ok(check, `${text}, noeviction`);
  }
}

/** Data lost at a power loss or a crash of Redis. */
function judgeDurability({ appendOnly, appendSync, snapshots }: RedisFacts): Finding {
  const check = "redis durability";
  if (appendOnly === null) {
    return warn(check, "it does not report whether it keeps an append-only file (INFO is not allowed)", "ask who runs it for AOF");
  }
  if (!appendOnly) {
    const left = snapshots === false ? "everything is lost" : "everything since the last snapshot is lost, acknowledged events among it,";
    return fail(
      check,
      `no append-only file: ${left} when Redis ends`,
      "CONFIG SET appendonly yes, and CONFIG SET appendfsync always (and in its configuration)",
    );
  }
  switch (appendSync) {
    case "always":
      return ok(check, "append-only file, synced before each answer: nothing acknowledged is lost at a power loss");
    case "everysec":
      return warn(
        check,
        "append-only file, synced each second: a power loss takes up to two seconds of acknowledged events (a crash of Redis alone takes none)",
        "CONFIG SET appendfsync always, where that is too much",
      );
    case "no":
      return warn(
        check,
        "append-only file, synced when the system likes: a power loss takes half a minute of acknowledged events",
        "CONFIG SET appendfsync always, or everysec",
      );
    default:
      return warn(
        check,
        "append-only file; how often it is synced cannot be read (CONFIG is not allowed)",
        "ask who runs it for appendfsync: always loses nothing acknowledged, everysec up to two seconds at a power loss",
      );
  }
}

function judgeFiles({ failedWrites }: RedisFacts): Finding[] {
  if (failedWrites.length === 0) return [];
  return [
    fail(
      "redis files",
      `the last write failed: ${failedWrites.join(", ")}; Redis refuses events while it cannot write`,
      "look at the disk of Redis, and at its log",
    ),
  ];
}

/** Data lost at a failover. */
function judgeReplicas({ role, replicas, neededReplicas: needed, replicaLagSeconds: lag }: RedisFacts): Finding | null {
  const check = "redis replicas";
  if (role !== "master" || replicas === null) return null;
  if (replicas === 0) return ok(check, "none: while this Redis is unavailable, events are answered 503");
  const text = `${replicas}; a failover loses what was acknowledged and not yet copied`;
  if (needed === null || lag === null) return ok(check, text);
  // Redis disables the check when either of the two is 0.
  if (needed === 0 || lag === 0) {
    return warn(
      check,
      `${text}: all that this Redis takes for as long as it is cut off from them (min-replicas-to-write ${needed}, min-replicas-max-lag ${lag})`,
      "with two replicas or more CONFIG SET min-replicas-to-write 1 and min-replicas-max-lag 2 (and in the configuration of each); with a single one events are 503 then while either of the two is away",
    );
  }
  return ok(check, `${text}: at most that of its last ${lag} s, as it refuses without word of ${needed}`);
}

function judgeLatency(ping: Latency, write: Latency | null): Finding {
  const check = "redis latency";
  const text = `PING ${latencyText(ping)}${write === null ? "" : `, write ${latencyText(write)}`}`;
  const slowest = Math.max(ping.p99, write?.p99 ?? 0);
  const usual = Math.max(ping.p50, write?.p50 ?? 0);
  const todo = "bring Redis nearer, or give its append-only file a faster disk; who else uses it? (SLOWLOG GET)";
  if (usual * roundTrips > providerWaitsMs) {
    return fail(
      check,
      `${text}: the service wants its answer within ${providerWaitsMs} ms, and accepting takes ${roundTrips} round trips`,
      todo,
    );
  }
  if (slowest > slowMs) return warn(check, `${text}; the service wants its answer within ${providerWaitsMs} ms`, todo);
  return ok(check, text);
}

function latencyText({ p50, p99 }: Latency): string {
  const text = (ms: number): string => (ms < 10 ? ms.toFixed(1) : String(Math.round(ms)));
  return `${text(p50)} ms (p99 ${text(p99)} ms)`;
}

function judgeSkew(skewMs: number | null): Finding | null {
  if (skewMs === null) return null;
  if (Math.abs(skewMs) <= toleratedSkewMs) return ok("redis clock", "agrees with this machine's");
  const way = skewMs > 0 ? "ahead of" : "behind";
  return warn(
    "redis clock",
    `it is ${spanText(skewMs)} ${way} this machine's; all processes go by it: if it is the wrong one, stored times and the timestamps of signatures are off by that`,
    "set the clocks of all machines by NTP (timedatectl)",
  );
}
