import net from "node:net";
import tls from "node:tls";
import type { Redis } from "ioredis";
import { growingWait } from "../model/clock.ts";
import type { RedisFaultKind } from "../model/delivery.ts";
import { type Secret, secretSchema } from "../model/secret.ts";
import { lookupFunction } from "./name-lookup.ts";
import { type TlsSettings, tlsKey, tlsOptions } from "./tls.ts";

/** Never print it as a whole (see {@link redisPlaceText}). */
interface RedisPlace {
  readonly tls: boolean;
  readonly host: string;
  readonly port: number;
  readonly username: string;
  readonly password: string;
  readonly db: number;
}

const form =
  /^(rediss?):\/\/(?:([^@/?#:]*)(?::([^@/?#]*))?@)?(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::(\d{1,5}))?(?:\/(\d{1,4})?)?$/;

/** User and password are percent-encoded. Null: not such a URL. */
export function readRedisUrl(text: string): RedisPlace | null {
  const match = form.exec(text);
  if (match === null) return null;
  const [, scheme, user = "", secret = "", ipv6, name = "", portText = "6379", db = "0"] = match;
  const port = Number(portText);
  if (port < 1 || port > 65535) return null;
  try {
    const [username, password] = [decodeURIComponent(user), decodeURIComponent(secret)];
    // Redis has no users without a password.
    if (username !== "" && password === "") return null;
    return {
      tls: scheme === "rediss",
      host: ipv6 ?? name,
      port,
      username,
      password,
      db: Number(db),
    };
  } catch {
    return null;
  }
}

export function redisPlaceText({ tls, host, port, db }: RedisPlace): string {
  return `${tls ? "rediss" : "redis"}://${host.includes(":") ? `[${host}]` : host}:${port}/${db}`;
}

/** A secret as a whole, because it has a password. */
export const redisUrlSchema = secretSchema.refine(
  (url) => readRedisUrl(url.reveal()) !== null,
  "is not a Redis URL, such as redis://user:password@host:6379/0, or rediss:// with TLS (in user and password, / ? # @ : and % are percent-encoded)",
);

export interface RedisFault {
  readonly kind: RedisFaultKind;
  /** One line, without arguments and secrets. */
  readonly message: string;
  /** The command was sent, and no answer came. */
  readonly mayBeDone: boolean;
}

/** By the code of Redis' error. */
const answered: Readonly<
  Record<string, { readonly kind: RedisFaultKind; readonly message: string }>
> = {
  LOADING: { kind: "loading", message: "Redis is reading its files after a start" },
  BUSY: { kind: "hung", message: "Redis is kept busy by a script" },
  CLUSTERDOWN: { kind: "cluster", message: "the Redis Cluster is down" },
  TRYAGAIN: { kind: "cluster", message: "the Redis Cluster is moving the keys" },
  MOVED: { kind: "cluster", message: "the keys are on another node of a Redis Cluster" },
  ASK: { kind: "cluster", message: "the Redis Cluster is moving the keys" },
  CROSSSLOT: { kind: "cluster", message: "the keys are on several nodes of a Redis Cluster" },
  NOAUTH: { kind: "credentials", message: "Redis asks for a password, and the settings have none" },
  WRONGPASS: { kind: "credentials", message: "Redis refuses the user or the password" },
  NOPERM: { kind: "credentials", message: "the user of Redis lacks a permission" },
  OOM: { kind: "full", message: "Redis is full (maxmemory)" },
  READONLY: { kind: "read-only", message: "Redis is a read-only replica" },
  MASTERDOWN: { kind: "read-only", message: "Redis is a replica that has lost its primary" },
  MISCONF: { kind: "disk", message: "Redis cannot write its files to disk, and takes no writes" },
  NOREPLICAS: {
    kind: "replicas",
    message: "Redis has too few replicas connected (min-replicas-to-write)",
  },
};

const unsent = /enableOfflineQueue/;
const closed =
  /^Connection is closed|max retries per request|Command aborted due to connection close|Socket closed/i;
const noAddress = ["ENOTFOUND", "EAI_AGAIN", "ENODATA", "ETIMEOUT", "ESERVFAIL", "EREFUSED"];
const noConnection = new Set([
  "ECONNREFUSED",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EHOSTDOWN",
  "EADDRNOTAVAIL",
  ...noAddress,
]);
const brokenConnection = new Set(["ECONNRESET", "EPIPE", "ECONNABORTED"]);

/**
 * The first word. Redis before 7 wraps the error of a script's command: `ERR Error running script
 * (call to f_…): @user_script: 1: -READONLY …`.
 */
const errorCode = /^(?:ERR Error running script \(call to \w+\): .*?: -)?([A-Z]+)/;

/** Null for others, such as an invalid command. */
export function redisFaultOf(error: unknown): RedisFault | null {
  if (!(error instanceof Error)) return null;
  const { message, name, code } = error as Error & { code?: unknown };
  const known = answered[errorCode.exec(message)?.[1] ?? ""];
  if (known !== undefined) return { ...known, mayBeDone: false };
  if (/max number of clients/i.test(message))
    return fault("clients", "Redis has as many clients as it allows (maxclients)");
  if (
    /^ERR.*(?:operation not permitted|invalid password|without any password|only be called when|user executing the script can't)/i.test(
      message,
    )
  ) {
    return fault("credentials", "Redis refuses the user or the password");
  }
  if (/^ERR (?:DB index is out of range|invalid DB index|SELECT is not allowed)/i.test(message)) {
    return fault("database", "Redis has no database of that number");
  }
  if (message === "Command timed out" || /^Socket timeout/.test(message))
    return fault("hung", "Redis does not answer in time", true);
  if (unsent.test(message)) return fault("unreachable", "Redis is not connected");
  if (closed.test(message)) return fault("unreachable", "the connection to Redis was lost", true);
  if (name === "ParserError" || message.startsWith("Unknown RESP type"))
    return fault("stranger", "the server is no Redis", true);
  if (typeof code !== "string") return null;
  if (noConnection.has(code)) return fault("unreachable", `Redis cannot be reached (${code})`);
  if (code === "ETIMEDOUT")
    return fault("unreachable", "Redis cannot be reached (no connection in time)");
  if (brokenConnection.has(code))
    return fault("unreachable", `the connection to Redis was lost (${code})`, true);
  if (/^(ERR_TLS|ERR_SSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO)|_CERT|EPROTO/.test(code)) {
    return fault("stranger", `TLS with Redis fails (${code})`);
  }
  return null;
}

/**
 * The initial SELECT of a connection failed. The client continues with database 0, which belongs to
 * others, so the connection must be closed.
 */
function isWithoutDatabase(error: Error): boolean {
  return (error as { command?: { name?: unknown } }).command?.name === "select";
}

function fault(kind: RedisFaultKind, message: string, mayBeDone = false): RedisFault {
  return { kind, message, mayBeDone };
}

/**
 * For logs. The error itself has the command's arguments, and Redis quotes them in some messages.
 */
export function redisErrorText(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return (text.split(/, with args beginning with|\n/, 1)[0] ?? "").slice(0, 300);
}

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
export const linkFaultOf = (error: unknown): RedisFault | null =>
  error instanceof LinkDown ? error.fault : redisFaultOf(error);

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

const notYet: RedisFault = {
  kind: "unreachable",
  message: "Redis is not connected",
  mayBeDone: false,
};

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

  /**
   * ioredis' own accepts no lookup without TLS, and would block a thread for each name that does
   * not resolve.
   */
  class Connector extends AbstractConnector {
    constructor() {
      super(disconnectMs);
    }
    async connect(): Promise<net.Socket> {
      this.connecting = true;
      const stream = isTls
        ? tls.connect({
            ...to,
            ...tlsOptions(tlsSettings),
            ...(net.isIP(host) === 0 ? { servername: host } : {}),
          })
        : net.connect(to);
      this.stream = stream;
      // Not once: with TLS, an alert of the server can follow the first error, and one without a
      // listener ends the process.
      stream.on("error", (error) => {
        this.firstError ??= error;
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
    reconnectOnError: (error: Error) => redisFaultOf(error)?.kind === "read-only",
    // One write per turn of the event loop.
    enableAutoPipelining: true,
  };
}
