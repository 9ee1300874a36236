import net from "node:net";
import tls from "node:tls";
import type { Redis } from "ioredis";
import { growingWait } from "../model/backoff.ts";
import type { Secret } from "../model/secret.ts";
import { lookupFunction } from "./name-lookup.ts";
import { isWithoutDatabase, type RedisFault, type RedisPlace, readRedisUrl, redisFaultOf } from "./redis.ts";
import { type TlsSettings, tlsKey, tlsOptions } from "./tls.ts";

export interface RedisLink {
  /** Rejects at once with {@link LinkDown} while Redis is unavailable. */
  ready(): Promise<Redis>;
  /** Connected or not, for BullMQ. */
  client(): Promise<Redis>;
  /** Each user calls it once. The last call closes the connection. */
  close(): void;
}

class LinkDown extends Error {
  override readonly name = "LinkDown";
  readonly fault: RedisFault;

  constructor(fault: RedisFault) {
    super(fault.message);
    this.fault = fault;
  }
}

/** Null: not a fault of Redis. */
export const linkFaultOf = (error: unknown): RedisFault | null => (error instanceof LinkDown ? error.fault : redisFaultOf(error));

export function createRedisLinks(): (url: Secret, tls?: TlsSettings) => RedisLink {
  const open = new Map<string, { readonly link: RedisLink; users: number }>();
  return (url, tls) => {
    const key = `${url.reveal()} ${tlsKey(tls)}`;
    const entry = open.get(key) ?? { link: openLink(url.reveal(), tls), users: 0 };
    entry.users += 1;
    open.set(key, entry);
    return {
      ...entry.link,
      close() {
        entry.users -= 1;
        if (entry.users > 0) return;
        open.delete(key);
        entry.link.close();
      },
    };
  };
}

/** A server that hangs does not close its side. */
const disconnectMs = 2_000;

const notYet: RedisFault = { kind: "unreachable", message: "Redis is not connected", mayBeDone: false };

function openLink(url: string, tlsSettings: TlsSettings | undefined): RedisLink {
  let fault = notYet;
  let isClosed = false;
  let coming: Promise<void> | null = null;

  const client = connect(url, tlsSettings).then((made) => {
    made.on("error", (error: Error) => {
      if (fault === notYet) fault = redisFaultOf(error) ?? notYet;
      if (isWithoutDatabase(error)) made.disconnect(true);
    });
    made.on("connecting", () => {
      fault = notYet;
    });
    if (isClosed) made.disconnect();
    return made;
  });

  function outcome(redis: Redis): Promise<void> {
    coming ??= new Promise<void>((resolve) => {
      const done = () => {
        redis.off("ready", done).off("close", done).off("end", done);
        coming = null;
        resolve();
      };
      redis.on("ready", done).on("close", done).on("end", done);
    });
    return coming;
  }

  return {
    client: () => client,
    async ready() {
      const redis = await client;
      // Does not wait between two tries (`reconnecting`): the breaker decides when to try again.
      if (redis.status === "connecting" || redis.status === "connect") await outcome(redis);
      if (redis.status !== "ready") throw new LinkDown(fault);
      return redis;
    },
    close() {
      isClosed = true;
      void client.then((made) => made.disconnect());
    },
  };
}

/** Loaded when first needed: it takes a sixth of a second. */
async function connect(url: string, tlsSettings: TlsSettings | undefined): Promise<Redis> {
  const { AbstractConnector, Redis } = await import("ioredis");
  const place = readRedisUrl(url) as RedisPlace;
  const { host, port, tls: isTls } = place;
  const to = { host, port, lookup: lookupFunction() };

  /** ioredis' own accepts no lookup without TLS, and would block a thread for each name that does not resolve. */
  class Connector extends AbstractConnector {
    constructor() {
      super(disconnectMs);
    }
    async connect(): Promise<net.Socket> {
      this.connecting = true;
      const stream = isTls
        ? tls.connect({ ...to, ...tlsOptions(tlsSettings), ...(net.isIP(host) === 0 ? { servername: host } : {}) })
        : net.connect(to);
      this.stream = stream;
      stream.once("error", (error) => {
        this.firstError = error;
      });
      return stream;
    }
  }
  return new Redis({ ...optionsOf(place), Connector });
}

function optionsOf(place: RedisPlace) {
  return {
    db: place.db,
    ...(place.username === "" ? {} : { username: place.username }),
    ...(place.password === "" ? {} : { password: place.password }),
    ...(place.tls ? { tls: {} } : {}),
    connectionName: "wamid-relay-deliveries",
    connectTimeout: 5_000,
    // The lane retries.
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    maxLoadingRetryTime: 1_000,
    // A new connection may reach another server.
    socketTimeout: 10_000,
    retryStrategy: (times: number) => growingWait(times, 100, 1_000),
    // After a failover the old connection leads to a replica, and the name to the new primary.
    reconnectOnError: (error: Error) => error.message.startsWith("READONLY"),
    // One write per turn of the event loop.
    enableAutoPipelining: true,
  };
}
