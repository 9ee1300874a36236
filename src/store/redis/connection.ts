import { growingWait } from "../../model/backoff.ts";
import type { Clock } from "../../model/clock.ts";
import { type RedisFault, type RedisFaultKind, readRedisUrl, redisFaultOf, redisPlaceText } from "../../model/redis.ts";
import { StoreRefused } from "../port.ts";
import type { RedisSettings } from "../settings.ts";
import { createRedisClient, giveUpConnection, type Redis, RedisUnavailable, storeError } from "./client.ts";
import { keysOf } from "./keys.ts";
import { checkVersion, type Presence, type RedisClock, removePresence, writePresence } from "./server.ts";

/**
 * The known state of Redis.
 *
 * | state | commands | ends when |
 * |---|---|---|
 * | `down` | fail at once, without a round trip; also before the first connection | a probe succeeds |
 * | `refusing` | are sent: reads work, and writes fail with the reason (full, read-only, disk, replicas) | a probe succeeds, or Redis goes down |
 * | `up` | are sent | a command or probe fails with a fault of Redis, or the connection is lost |
 *
 * The probe writes this process' presence (readers send PING): on every new connection, every two seconds while up, and
 * otherwise until it succeeds. So outages and recoveries are noticed without traffic.
 */
export type RedisState =
  | { readonly kind: "up" }
  | { readonly kind: "refusing"; readonly fault: RedisFault }
  | { readonly kind: "down"; readonly fault: RedisFault };

export interface RedisHooks {
  /** Called once per change of the state or of the kind of its fault. */
  moved?(state: RedisState): void;
  /**
   * Runs on every new connection before it counts as up. A `StoreRefused` from it (another program's data, a newer schema)
   * is permanent.
   */
  greet?(redis: Redis): Promise<unknown>;
}

interface RedisOptions {
  /** A `RedisClock` is synchronized at each probe. */
  readonly clock: Clock | RedisClock;
  readonly random?: () => number;
  /** Entry of this process in the list of connected processes. Null: it only reads, also where writes are refused. */
  readonly presence: Presence | null;
  /** Shown by `CLIENT LIST`; default: `wamid-relay`. */
  readonly name?: string;
}

export interface RedisConnection {
  /** For commands inside `run`, and for BullMQ's producers. Fails fast: no command waits for a connection. */
  readonly client: Redis;
  /**
   * Runs commands. Rejects with `StoreUnavailable` (a {@link RedisUnavailable}) at once while Redis is known to be down, and
   * within `commandTimeout` when it goes down; the same when Redis refuses. Rejects with a plain error when the command is wrong.
   */
  run<T>(use: (redis: Redis) => Promise<T>): Promise<T>;
  state(): RedisState;
  /**
   * Resolves with the first known state, which may be `down`. Rejects with `StoreRefused`, in one line, for permanent faults:
   * user or password, a Redis too old, another kind of server, what `greet` refuses.
   */
  opened(): Promise<RedisState>;
  close(): Promise<void>;
}

/** The address for messages, without user and password. */
export function redisAddress({ url }: RedisSettings): string {
  const place = readRedisUrl(url.reveal());
  return place === null ? "redis" : redisPlaceText(place);
}

/** Probe interval while up. */
const aliveEveryMs = 2_000;
/** First probe interval otherwise; doubled while each success is followed by a new refusal. */
const probeEveryMs = 250;
const longestProbeMs = 5_000;
/** A refusal this soon after the last one has the same cause, such as memory at its limit. */
const relapseMs = 10_000;

const refusals = new Set<RedisFaultKind>(["full", "read-only", "disk", "replicas"]);
const hopeless = new Set<RedisFaultKind>(["credentials", "database", "stranger"]);

/** Connects at once, and reconnects until `close`. */
export function connectRedis(settings: RedisSettings, options: RedisOptions, hooks: RedisHooks = {}): RedisConnection {
  const { clock, presence } = options;
  const client = createRedisClient(settings, options.name ?? "wamid-relay", "fail-fast", options.random);
  const first = Promise.withResolvers<RedisState>();
  // No unhandled rejection when `opened` is never called.
  first.promise.catch(() => {});

  let state: RedisState = { kind: "down", fault: { kind: "unreachable", message: "Redis is not connected yet", mayBeDone: false } };
  let isKnown = false;
  let isClosed = false;
  let isProbing = false;
  /** The first error of this connection, which is more specific than those of its end. */
  let firstWords: RedisFault | null = null;
  /** True once `greet` has run on this connection. */
  let isGreeted = false;
  /** True while a connection that was dropped on purpose closes. */
  let isLeft = false;
  let refusedAt = Number.NEGATIVE_INFINITY;
  let relapses = 0;
  let cancelProbe = (): void => {};

  function move(next: RedisState): void {
    const isNews = state.kind !== next.kind || (state.kind !== "up" && next.kind !== "up" && state.fault.kind !== next.fault.kind);
    state = next;
    if (!isKnown) {
      isKnown = true;
      first.resolve(next);
    } else if (!isNews) return;
    hooks.moved?.(next);
  }

  function isDown(): boolean {
    return state.kind === "down";
  }

  function refuse(message: string): void {
    if (!isKnown) {
      isKnown = true;
      state = { kind: "down", fault: { kind: "stranger", message, mayBeDone: false } };
      first.reject(new StoreRefused(`${redisAddress(settings)}: ${message}`));
      return;
    }
    move({ kind: "down", fault: { kind: "stranger", message, mayBeDone: false } });
  }

  function suspect(fault: RedisFault): void {
    if (isClosed) return;
    if (hopeless.has(fault.kind) && !isKnown) {
      refuse(fault.message);
      return;
    }
    // Only a probe ends `down`, not a refusal. The fault is updated nevertheless.
    if (!refusals.has(fault.kind) || (state.kind === "down" && !isGreeted)) {
      isGreeted = false;
      move({ kind: "down", fault });
    } else {
      if (state.kind === "up") {
        relapses = clock.now() - refusedAt < relapseMs ? relapses + 1 : 0;
        refusedAt = clock.now();
      }
      move({ kind: "refusing", fault });
    }
    if (!isProbing) probeIn(probeEveryMs);
  }

  function probeIn(ms: number): void {
    cancelProbe();
    cancelProbe = clock.after(ms, () => void probe());
  }

  async function probe(): Promise<void> {
    if (isClosed || isProbing) return;
    isProbing = true;
    try {
      if (client.status !== "ready") return;
      if (!isGreeted) {
        await checkVersion(client);
        await hooks.greet?.(client);
      }
      isGreeted = true;
      if ("follow" in clock) await clock.follow(client, keysOf(settings.prefix).base);
      if (presence === null) await client.ping();
      else await writePresence(client, settings.prefix, clock.now(), presence);
      if (!isClosed) move({ kind: "up" });
    } catch (error) {
      failed(error);
    } finally {
      isProbing = false;
      if (!isClosed) probeIn(state.kind === "up" ? aliveEveryMs : growingWait(relapses + 1, probeEveryMs, longestProbeMs));
    }
  }

  function failed(error: unknown): void {
    if (isClosed) return;
    if (error instanceof StoreRefused) {
      refuse(error.message);
      return;
    }
    const fault = error instanceof RedisUnavailable ? error : redisFaultOf(error);
    if (fault === null) {
      refuse(storeError(error).message);
      return;
    }
    suspect({ kind: fault.kind, message: fault.message, mayBeDone: false });
    // The name or the Sentinels may lead to another server now, and the connection may be dead on the far side only.
    if (fault.kind === "hung") reconnect(() => giveUpConnection(client));
    else if (fault.kind === "read-only") reconnect(() => client.disconnect(true));
  }

  /** A Cluster's client manages the connections to its nodes itself. */
  function reconnect(leave: () => void): void {
    if (client.status !== "ready" || client.isCluster) return;
    isLeft = true;
    leave();
  }

  client.on("error", (error) => {
    firstWords ??= redisFaultOf(error) ?? { kind: "unreachable", message: storeError(error).message, mayBeDone: false };
  });
  client.on("connecting", () => {
    firstWords = null;
  });
  client.on("ready", () => {
    isGreeted = false;
    void probe();
  });
  client.on("close", () => {
    isGreeted = false;
    if (isLeft) isLeft = false;
    else suspect(firstWords ?? { kind: "unreachable", message: "the connection to Redis was lost", mayBeDone: false });
  });
  // The client reconnects to a Cluster's node by itself, and the node may have other data than before.
  client.on("+node", (node: Redis) => {
    node.on("close", () => {
      isGreeted = false;
    });
  });
  // No known case ends the client for good; if one does, reconnect.
  client.on("end", () => {
    if (!isClosed) clock.after(longestProbeMs, () => isClosed || void client.connect().catch(() => {}));
  });
  void client.connect().catch(() => {});
  // The client retries missing Sentinels without an event.
  const cancelFirst = clock.after(settings.commandTimeout + probeEveryMs, () => {
    if (!isKnown) suspect(firstWords ?? { kind: "unreachable", message: "Redis cannot be reached", mayBeDone: false });
  });

  return {
    client,
    async run(use) {
      // While a refusing server is reconnected, fail with its fault.
      const isBetween = (client.status !== "ready" || isLeft) && !client.isCluster;
      if (state.kind === "down" || (state.kind === "refusing" && isBetween))
        throw new RedisUnavailable({ ...state.fault, mayBeDone: false });
      try {
        return onItsOwn(await use(client));
      } catch (error) {
        const fault = redisFaultOf(error);
        // While down, further failures are not reported.
        if (fault !== null && !isDown()) suspect(fault);
        throw storeError(error);
      }
    },
    state: () => state,
    opened: () => first.promise,
    async close() {
      if (isClosed) return;
      isClosed = true;
      cancelProbe();
      cancelFirst();
      if (presence !== null && client.status === "ready" && state.kind !== "down") {
        await removePresence(client, settings.prefix, clock.now(), presence).catch(() => {});
      }
      client.disconnect();
      if (!isKnown) first.resolve(state);
    },
  };
}

/**
 * Moves the elements of a list into a new one. The client's promise of an answer lives until the next full collection
 * (script.ts), and would keep them in memory.
 */
function onItsOwn<T>(answer: T): T {
  return Array.isArray(answer) ? (answer.splice(0) as T) : answer;
}
