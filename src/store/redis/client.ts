import { TLSSocket } from "node:tls";
import { type ChainableCommander, Cluster, Redis } from "ioredis";
import { isWithoutDatabase, type RedisFault, type RedisFaultKind, redisErrorText, redisFaultOf } from "../../event/redis-fault.ts";
import { type RedisPlace, readRedisUrl } from "../../event/redis-url.ts";
import { StoreRefused, StoreUnavailable } from "../port.ts";
import type { RedisSettings } from "../settings.ts";

export type { Redis };

/** How a client of Redis behaves when there is no answer. */
type Manner =
  /** Commands fail at once without a connection, and after `commandTimeout` without an answer; none is sent twice. */
  | "fail-fast"
  /** For workers of BullMQ: commands wait for the connection, and blocking ones for their work. */
  | "patient";

/** First waits after a lost connection, in milliseconds; doubled from one try to the next. */
const firstWaitMs = 50;
/** Longest wait between two tries: how long after its return Redis may go unnoticed. */
const longestWaitMs = 2_000;

/** A patient connection that has heard nothing for this long is dead: BullMQ's workers ask every ten seconds at the latest. */
const silentMs = 30_000;

/** Waits between tries: 50 ms, doubling to 2 s, each spread by a fifth so that many processes do not come back in one moment. */
function reconnectDelay(tries: number, random: () => number): number {
  const wait = Math.min(longestWaitMs, firstWaitMs * 2 ** Math.min(tries - 1, 10));
  return Math.round(wait * (0.8 + 0.4 * random()));
}

/**
 * A client for the Redis of the settings: one server, behind Sentinels, or a Cluster. One that fails fast connects by
 * `connect()`, a patient one at once, and both again by themselves for ever. `name` is what `CLIENT LIST` shows. Whoever
 * makes one listens to its `error` events.
 */
export function createRedisClient(settings: RedisSettings, name: string, manner: Manner, random: () => number = Math.random): Redis {
  const place = readRedisUrl(settings.url.reveal());
  if (place === null) throw new Error("storage.url has passed its check and is no URL");
  const retryStrategy = (tries: number): number => reconnectDelay(tries, random);
  const options = connectionOptions(place, settings.commandTimeout, name, manner);
  const isPatient = manner === "patient";
  // A worker of BullMQ gives up for ever when the first `connect()`, which it calls for a lazy client, finds nobody.
  const start = { enableOfflineQueue: isPatient, lazyConnect: !isPatient };

  if (settings.cluster) {
    const cluster = new Cluster([...place.hosts], {
      ...start,
      clusterRetryStrategy: retryStrategy,
      // A node that comes back is noticed by itself, and not by the next MOVED of another.
      clusterNodeRetryStrategy: retryStrategy,
      // Each redirection to a lost node asks who has its slots now, 100 ms later: three make a failing command fail soon.
      ...(isPatient ? {} : { maxRedirections: 4 }),
      slotsRefreshTimeout: settings.commandTimeout,
      // Named in their certificates, and not by the addresses behind the names.
      ...(place.tls ? { dnsLookup: (host, done) => done(null, host) } : {}),
      redisOptions: {
        ...options,
        // Of a node that is hung: the client of one server is told to connect again, that of a Cluster's node cannot be.
        ...(isPatient ? {} : { socketTimeout: settings.commandTimeout * 2 }),
      },
    });
    // It has all of the commands; what differs (events of nodes) is dealt with where it is used.
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
    // Not failoverDetector: a failover that it hears of while connecting ends the client for ever (ioredis 6.0.0). That the
    // primary is another one shows without it: the Sentinels close the old one's connections, and it answers READONLY.
  });
  return neverElsewhere(behindSentinels);
}

function neverElsewhere(client: Redis): Redis {
  return client.on("error", (error: Error) => {
    if (isWithoutDatabase(error)) client.disconnect(true);
  });
}

/**
 * Gives up a connection on which nothing comes back, and connects anew. With a reset: of one that is closed in order the
 * kernel goes on sending what has not arrived for a minute and longer, and once the network is mended Redis would do
 * commands that had failed long ago. One in TLS can only be closed, as can what a Cluster's client gives up by itself.
 */
export function giveUpConnection(client: Redis): void {
  if (client.stream instanceof TLSSocket) client.disconnect(true);
  else client.stream.resetAndDestroy();
}

/** What all three ways to connect have in common. */
function connectionOptions({ tls, username, password, db }: RedisPlace, commandTimeout: number, name: string, manner: Manner) {
  return {
    db,
    ...(username === "" ? {} : { username }),
    ...(password === "" ? {} : { password }),
    ...(tls ? { tls: {} } : {}),
    connectionName: name,
    connectTimeout: commandTimeout,
    // A hung server does not close its side; waiting for that would hold up the next try.
    disconnectTimeout: 100,
    keepAlive: 10_000,
    // While it loads its files, Redis is asked this often, and not only after the time it guesses itself.
    maxLoadingRetryTime: 250,
    ...(manner === "fail-fast"
      ? { commandTimeout, maxRetriesPerRequest: 0, autoResendUnfulfilledCommands: false }
      : { socketTimeout: silentMs, maxRetriesPerRequest: null, reconnectOnError: isReadOnly }),
  };
}

/** What it is connected to has become a replica, and the name leads to another server by now. A client that fails fast is told so. */
const isReadOnly = (error: Error): boolean => error.message.startsWith("READONLY");

/** The way to Redis as the store uses it. */
export interface RedisLink {
  /** Rejects with `StoreUnavailable`, at once while Redis is known to be out of reach, and with the fault itself when it is the command's. */
  run<T>(command: (redis: Redis) => Promise<T>): Promise<T>;
}

type Fill = (commands: ChainableCommander) => unknown;

/** Commands in one round trip, between which others may have their turn; gives what each of them gave. */
export const runPipeline = (link: RedisLink, fill: Fill): Promise<unknown[]> => runAll(link, (redis) => redis.pipeline(), fill);

/** Commands in one piece: nobody sees or changes anything in between. */
export const runMulti = (link: RedisLink, fill: Fill): Promise<unknown[]> => runAll(link, (redis) => redis.multi(), fill);

/**
 * `exec` resolves whatever the commands did. The first error is thrown while the link looks: it takes it as one of any
 * other command, and what was wrong with Redis is known from then on.
 */
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

/** Redis could not do what it was asked just now. */
export class RedisUnavailable extends StoreUnavailable {
  readonly kind: RedisFaultKind;
  /** True when it may have been done all the same: it was sent, and no answer came. */
  readonly mayBeDone: boolean;

  constructor({ kind, message, mayBeDone }: RedisFault) {
    super(message);
    this.kind = kind;
    this.mayBeDone = mayBeDone;
  }
}

/**
 * An error of a client of Redis as one of ours: `StoreUnavailable` where Redis is at fault, else one that says what was wrong
 * with the command. The client's own is left behind: it holds every argument, people's data among them.
 */
export function storeError(error: unknown): Error {
  if (error instanceof StoreUnavailable || error instanceof StoreRefused) return error;
  const fault = redisFaultOf(error);
  if (fault !== null) return new RedisUnavailable(fault);
  if (!(error instanceof Error)) return new Error(String(error));
  return "command" in error || error.name === "ReplyError" ? new Error(`Redis: ${redisErrorText(error)}`) : error;
}
