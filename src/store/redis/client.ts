import { TLSSocket } from "node:tls";
import { type ChainableCommander, Cluster, Redis } from "ioredis";
import { growingWait } from "../../model/backoff.ts";
import {
  isWithoutDatabase,
  type RedisFault,
  type RedisFaultKind,
  type RedisPlace,
  readRedisUrl,
  redisErrorText,
  redisFaultOf,
} from "../../model/redis.ts";
import { type TlsSettings, tlsOptions } from "../../model/tls.ts";
import { StoreRefused, StoreUnavailable } from "../port.ts";
import type { RedisSettings } from "../settings.ts";

export type { Redis };

/** How a client of Redis behaves when there is no answer. */
type Manner =
  /** Commands fail at once without a connection, and after `commandTimeout` without an answer; none is sent twice. */
  | "fail-fast"
  /** For workers of BullMQ: commands wait for the connection, and blocking ones for their work. */
  | "patient";

/** First backoff after a lost connection, in ms; doubled for each try. */
const firstWaitMs = 50;
/** Longest backoff, in ms: how long a Redis that is back may go unnoticed. */
const longestWaitMs = 2_000;

/** A patient connection without any answer for this long is dead: BullMQ's workers send a command at least every ten seconds. */
const silentMs = 30_000;

/** Backoff: 50 ms, doubling to 2 s, with 20 % jitter so that processes do not reconnect all at once. */
function reconnectDelay(tries: number, random: () => number): number {
  return Math.round(growingWait(tries, firstWaitMs, longestWaitMs) * (0.8 + 0.4 * random()));
}

/**
 * A client for the Redis of the settings: one server, behind Sentinels, or a Cluster. A fail-fast client connects on
 * `connect()`, a patient one at once; both reconnect for ever. `name` is what `CLIENT LIST` shows. The caller must listen
 * to `error` events.
 */
export function createRedisClient(
  settings: RedisSettings & { readonly tls?: TlsSettings | undefined },
  name: string,
  manner: Manner,
  random: () => number = Math.random,
): Redis {
  const place = readRedisUrl(settings.url.reveal());
  if (place === null) throw new Error("storage.url has passed its check and is no URL");
  const retryStrategy = (tries: number): number => reconnectDelay(tries, random);
  const options = connectionOptions(place, settings, name, manner);
  const isPatient = manner === "patient";
  // BullMQ's worker calls `connect()` on a lazy client, and gives up for ever when that fails.
  const start = { enableOfflineQueue: isPatient, lazyConnect: !isPatient };

  if (settings.cluster) {
    const cluster = new Cluster([...place.hosts], {
      ...start,
      clusterRetryStrategy: retryStrategy,
      // Notice a node that comes back without waiting for the next MOVED.
      clusterNodeRetryStrategy: retryStrategy,
      // Each redirection to a lost node refreshes the slots 100 ms later: three let a failing command fail soon.
      ...(isPatient ? {} : { maxRedirections: 4 }),
      slotsRefreshTimeout: settings.commandTimeout,
      // Certificates name hosts, not addresses.
      ...(place.tls ? { dnsLookup: (host, done) => done(null, host) } : {}),
      redisOptions: {
        ...options,
        // Detects a hung node: a client for one server can be reconnected, the client of a Cluster's node cannot.
        ...(isPatient ? {} : { socketTimeout: settings.commandTimeout * 2 }),
      },
    });
    // It has all commands; connection.ts handles its own events, such as `+node`.
    return cluster as unknown as Redis;
  }
  const common = { ...options, ...start, retryStrategy };
  if (settings.sentinel === undefined) return neverElsewhere(new Redis({ ...common, ...place.hosts[0] }));
  const behindSentinels = new Redis({
    ...common,
    sentinels: [...place.hosts],
    name: settings.sentinel,
    ...(place.username === "" ? {} : { sentinelUsername: place.username }),
    ...(place.password === "" ? {} : { sentinelPassword: place.password }),
    ...(place.tls ? { sentinelTLS: {}, enableTLSForSentinelMode: true } : {}),
    sentinelCommandTimeout: settings.commandTimeout,
    sentinelRetryStrategy: retryStrategy,
    // Not failoverDetector: a failover during a connect ends the client for ever (ioredis 6.0.0). A new primary shows
    // without it: the Sentinels close the old one's connections, and it answers READONLY.
  });
  return neverElsewhere(behindSentinels);
}

function neverElsewhere(client: Redis): Redis {
  return client.on("error", (error: Error) => {
    if (isWithoutDatabase(error)) client.disconnect(true);
  });
}

/**
 * Drops a hung connection and reconnects. It resets the connection: after an orderly close the kernel keeps sending for a
 * minute and longer, so Redis could run commands that failed long ago. TLS connections can only be closed.
 */
export function giveUpConnection(client: Redis): void {
  if (client.stream instanceof TLSSocket) client.disconnect(true);
  else client.stream.resetAndDestroy();
}

/** Options for one server, Sentinels and Cluster alike. */
function connectionOptions(
  { tls, username, password, db }: RedisPlace,
  { commandTimeout, tls: trust }: { readonly commandTimeout: number; readonly tls?: TlsSettings | undefined },
  name: string,
  manner: Manner,
) {
  return {
    db,
    ...(username === "" ? {} : { username }),
    ...(password === "" ? {} : { password }),
    ...(tls ? { tls: tlsOptions(trust) } : {}),
    connectionName: name,
    connectTimeout: commandTimeout,
    // A hung server does not close its side; waiting for that would delay the next try.
    disconnectTimeout: 100,
    keepAlive: 10_000,
    // While Redis loads its files, retry this often instead of after its own estimate.
    maxLoadingRetryTime: 250,
    ...(manner === "fail-fast"
      ? { commandTimeout, maxRetriesPerRequest: 0, autoResendUnfulfilledCommands: false }
      : { socketTimeout: silentMs, maxRetriesPerRequest: null, reconnectOnError: isReadOnly }),
  };
}

/** The server became a replica, and its name may lead to the new primary. connection.ts handles this for fail-fast clients. */
const isReadOnly = (error: Error): boolean => error.message.startsWith("READONLY");

/** The store's access to Redis. */
export interface RedisLink {
  /** Rejects with `StoreUnavailable`, at once while Redis is known to be unavailable, and with a plain error when the command is wrong. */
  run<T>(command: (redis: Redis) => Promise<T>): Promise<T>;
}

type Fill = (commands: ChainableCommander) => unknown;

/** Runs commands in one round trip, not atomically; returns their results. */
export const runPipeline = (link: RedisLink, fill: Fill): Promise<unknown[]> => runAll(link, (redis) => redis.pipeline(), fill);

/** Runs commands atomically (MULTI); returns their results. */
export const runMulti = (link: RedisLink, fill: Fill): Promise<unknown[]> => runAll(link, (redis) => redis.multi(), fill);

/** `exec` resolves even if commands failed. Throwing the first error inside `run` lets the link classify it. */
function runAll(link: RedisLink, begin: (redis: Redis) => ChainableCommander, fill: Fill): Promise<unknown[]> {
  return link.run(async (redis) => {
    const commands = begin(redis);
    fill(commands);
    const answers = await commands.exec();
    if (answers === null) throw new RedisUnavailable({ kind: "unreachable", message: "the pipeline was not run", mayBeDone: false });
    return answers.map(([error, answer]) => {
      if (error !== null) throw error;
      return answer;
    });
  });
}

/** Redis is unavailable, or refused the command for now. */
export class RedisUnavailable extends StoreUnavailable {
  readonly kind: RedisFaultKind;
  /** True when the command may have run: it was sent, and no answer came. */
  readonly mayBeDone: boolean;

  constructor({ kind, message, mayBeDone }: RedisFault) {
    super(message);
    this.kind = kind;
    this.mayBeDone = mayBeDone;
  }
}

/**
 * Converts an error of the Redis client: `StoreUnavailable` for faults of Redis, else an error that describes the wrong
 * command. The original is dropped because it holds every argument, personal data among them.
 */
export function storeError(error: unknown): Error {
  if (error instanceof StoreUnavailable || error instanceof StoreRefused) return error;
  const fault = redisFaultOf(error);
  if (fault !== null) return new RedisUnavailable(fault);
  if (!(error instanceof Error)) return new Error(String(error));
  return "command" in error || error.name === "ReplyError" ? new Error(`Redis: ${redisErrorText(error)}`) : error;
}
