import type { Clock } from "../../event/clock.ts";
import { type RedisFault, type RedisFaultKind, redisFaultOf } from "../../event/redis-fault.ts";
import { readRedisUrl, redisPlaceText } from "../../event/redis-url.ts";
import { StoreRefused } from "../port.ts";
import type { RedisSettings } from "../settings.ts";
import { createRedisClient, giveUpConnection, type Redis, RedisUnavailable, storeError } from "./client.ts";
import { keysOf } from "./keys.ts";
import { checkVersion, type Presence, type RedisClock, removePresence, writePresence } from "./server.ts";

/**
 * What is known of Redis.
 *
 * | state | what is asked of it | left when |
 * |---|---|---|
 * | `down` | fails at once, without Redis being asked; so before the first connection too | a probe was written |
 * | `refusing` | is asked: it answers, reads work, and writes fail with why (full, read-only, disk, replicas) | a probe was written, or it goes down |
 * | `up` | is asked | a command or a probe fails with a fault of Redis, or the connection is lost |
 *
 * The probe is a write (a PING, of who only looks): this process' presence, on every new connection, every two seconds while
 * up, and otherwise until it succeeds. So it is noticed without traffic too that Redis is gone, and that it is back.
 */
export type RedisState =
  | { readonly kind: "up" }
  | { readonly kind: "refusing"; readonly fault: RedisFault }
  | { readonly kind: "down"; readonly fault: RedisFault };

export interface RedisHooks {
  /** The state, or the kind of its fault, is another: once for each change, however many commands fail. */
  moved?(state: RedisState): void;
  /**
   * Runs on every new connection before it counts as up. What it throws as `StoreRefused` (another program's data, a
   * newer schema) is no fault that waiting repairs.
   */
  greet?(redis: Redis): Promise<unknown>;
}

interface RedisOptions {
  /** One that follows Redis is told its time at each probe. */
  readonly clock: Clock | RedisClock;
  readonly random?: () => number;
  /** What tells of this process while it is connected. Null: it only looks, writes nothing, and may look into what takes no writes. */
  readonly presence: Presence | null;
  /** What `CLIENT LIST` shows; not given: `wamid-relay`. */
  readonly name?: string;
}

export interface RedisConnection {
  /** For commands inside `run`, and for BullMQ's producers. Fails fast: no command waits for a connection. */
  readonly client: Redis;
  /**
   * Runs commands. Rejects with `StoreUnavailable` (a {@link RedisUnavailable}) at once while Redis is known to be down, and
   * within `commandTimeout` when it proves to be; with the same where Redis refuses; with a plain error where the command is wrong.
   */
  run<T>(use: (redis: Redis) => Promise<T>): Promise<T>;
  state(): RedisState;
  /**
   * Resolves with the first state that is known: Redis need not be there. Rejects with `StoreRefused`, one line, for what
   * no waiting repairs: user or password, a Redis too old, no Redis at all, what `greet` refuses.
   */
  opened(): Promise<RedisState>;
  close(): Promise<void>;
}

/** Where the address is for a person to read, without user and password. */
export function redisAddress({ url }: RedisSettings): string {
  const place = readRedisUrl(url.reveal());
  return place === null ? "redis" : redisPlaceText(place);
}

/** Between two probes while up. */
const aliveEveryMs = 2_000;
/** Between two probes while not, at first; doubled while each success is followed by a new refusal. */
const probeEveryMs = 250;
const longestProbeMs = 5_000;
/** A refusal this soon after the last one is the same trouble, such as memory at its limit. */
const relapseMs = 10_000;

const refusals = new Set<RedisFaultKind>(["full", "read-only", "disk", "replicas"]);
const hopeless = new Set<RedisFaultKind>(["credentials", "database", "stranger"]);

/** Connects at once, and again for ever, until `close`. */
export function connectRedis(settings: RedisSettings, options: RedisOptions, hooks: RedisHooks = {}): RedisConnection {
  const { clock, presence } = options;
  const client = createRedisClient(settings, options.name ?? "wamid-relay", "fail-fast", options.random);
  const first = Promise.withResolvers<RedisState>();
  // Whoever does not ask for the first state does not have it thrown at them.
  first.promise.catch(() => {});

  let state: RedisState = { kind: "down", fault: { kind: "unreachable", message: "Redis is not connected yet", mayBeDone: false } };
  let isKnown = false;
  let isClosed = false;
  let isProbing = false;
  /** The first fault that the client told of on this connection: it says more than those of its end. */
  let firstWords: RedisFault | null = null;
  /** True once what is connected was greeted; what was down is greeted anew. */
  let isGreeted = false;
  /** True while a connection that we gave up ourselves closes, which is no news. */
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
    // A connection that is down is not brought up by a refusal; only a probe does that. But it is known why.
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
      if (!isClosed) probeIn(state.kind === "up" ? aliveEveryMs : Math.min(longestProbeMs, probeEveryMs * 2 ** Math.min(relapses, 5)));
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
    // The name or the Sentinels may lead elsewhere by now, and a connection may be dead on the other side only.
    if (fault.kind === "hung") reconnect(() => giveUpConnection(client));
    else if (fault.kind === "read-only") reconnect(() => client.disconnect(true));
  }

  /** A Cluster's client looks after the connections to its nodes itself. */
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
  // A node of a Cluster: the client connects to it again by itself, and what is there may be another than before.
  client.on("+node", (node: Redis) => {
    node.on("close", () => {
      isGreeted = false;
    });
  });
  // The client gives up by itself in no case that is known; if it does, one connection must not stay down for ever.
  client.on("end", () => {
    if (!isClosed) clock.after(longestProbeMs, () => isClosed || void client.connect().catch(() => {}));
  });
  void client.connect().catch(() => {});
  // Sentinels that are not there are asked again and again without a word.
  const cancelFirst = clock.after(settings.commandTimeout + probeEveryMs, () => {
    if (!isKnown) suspect(firstWords ?? { kind: "unreachable", message: "Redis cannot be reached", mayBeDone: false });
  });

  return {
    client,
    async run(use) {
      // One that refuses is connected anew from time to time: it says why meanwhile, too.
      const isBetween = (client.status !== "ready" || isLeft) && !client.isCluster;
      if (state.kind === "down" || (state.kind === "refusing" && isBetween))
        throw new RedisUnavailable({ ...state.fault, mayBeDone: false });
      try {
        return onItsOwn(await use(client));
      } catch (error) {
        const fault = redisFaultOf(error);
        // What fails after that is the same news.
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
 * The elements of a list in a list of their own. The client's promise of an answer is kept until the next full collection
 * (script.ts), and with it all that it holds.
 */
function onItsOwn<T>(answer: T): T {
  return Array.isArray(answer) ? (answer.splice(0) as T) : answer;
}
