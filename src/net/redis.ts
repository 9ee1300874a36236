import type { RedisFaultKind } from "../model/delivery.ts";
import { secretSchema } from "../model/secret.ts";

/** Never print it as a whole (see {@link redisPlaceText}). */
export interface RedisPlace {
  readonly tls: boolean;
  readonly host: string;
  readonly port: number;
  readonly username: string;
  readonly password: string;
  readonly db: number;
}

const form = /^(rediss?):\/\/(?:([^@/?#]*)@)?(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::(\d{1,5}))?(?:\/(\d{1,4})?)?$/;

/** User and password are percent-encoded. Null: not such a URL. */
export function readRedisUrl(text: string): RedisPlace | null {
  const match = form.exec(text);
  if (match === null) return null;
  const [, scheme, credentials = "", ipv6, name = "", portText = "6379", db = "0"] = match;
  const port = Number(portText);
  if (port < 1 || port > 65535) return null;
  try {
    const colon = credentials.indexOf(":");
    const username = decodeURIComponent(colon === -1 ? credentials : credentials.slice(0, colon));
    const password = colon === -1 ? "" : decodeURIComponent(credentials.slice(colon + 1));
    // Redis has no users without a password.
    if (username !== "" && password === "") return null;
    return { tls: scheme === "rediss", host: ipv6 ?? name, port, username, password, db: Number(db) };
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

/** By the first word of Redis' error. */
const answered: Readonly<Record<string, { readonly kind: RedisFaultKind; readonly message: string }>> = {
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
  UNBLOCKED: { kind: "read-only", message: "Redis has become a replica" },
  MISCONF: { kind: "disk", message: "Redis cannot write its files to disk, and takes no writes" },
  NOREPLICAS: { kind: "replicas", message: "Redis has too few replicas connected (min-replicas-to-write)" },
};

const unsent = /enableOfflineQueue/;
const closed = /^Connection is closed|max retries per request|Command aborted due to connection close|Socket closed/i;
const noAddress = ["ENOTFOUND", "EAI_AGAIN", "ENODATA", "ETIMEOUT", "ESERVFAIL", "EREFUSED"];
const noConnection = new Set(["ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "EHOSTDOWN", "EADDRNOTAVAIL", ...noAddress]);
const brokenConnection = new Set(["ECONNRESET", "EPIPE", "ECONNABORTED"]);

/** Null for others, such as an invalid command. */
export function redisFaultOf(error: unknown): RedisFault | null {
  if (!(error instanceof Error)) return null;
  const { message, name, code, previousErrors } = error as Error & { code?: unknown; previousErrors?: unknown };
  // A transaction refused while it was queued.
  if (message.startsWith("EXECABORT") && Array.isArray(previousErrors)) return redisFaultOf(previousErrors[0]);

  const known = answered[/^[A-Z]+/.exec(message)?.[0] ?? ""];
  if (known !== undefined) return { ...known, mayBeDone: false };
  if (/max number of clients/i.test(message)) return fault("clients", "Redis has as many clients as it allows (maxclients)");
  if (/^ERR.*(?:operation not permitted|invalid password|without any password|only be called when)/i.test(message)) {
    return fault("credentials", "Redis refuses the user or the password");
  }
  if (/^ERR (?:DB index is out of range|invalid DB index|SELECT is not allowed)/i.test(message)) {
    return fault("database", "Redis has no database of that number");
  }
  if (message === "Command timed out" || /^Socket timeout/.test(message)) return fault("hung", "Redis does not answer in time", true);
  if (unsent.test(message)) return fault("unreachable", "Redis is not connected");
  if (closed.test(message)) return fault("unreachable", "the connection to Redis was lost", true);
  if (name === "ParserError" || message.startsWith("Unknown RESP type")) return fault("stranger", "the server is no Redis", true);
  if (typeof code !== "string") return null;
  if (noConnection.has(code)) return fault("unreachable", `Redis cannot be reached (${code})`);
  if (code === "ETIMEDOUT") return fault("unreachable", "Redis cannot be reached (no connection in time)");
  if (brokenConnection.has(code)) return fault("unreachable", `the connection to Redis was lost (${code})`, true);
  if (/^(ERR_TLS|ERR_SSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO)|_CERT|EPROTO/.test(code)) {
    return fault("stranger", `TLS with Redis fails (${code})`);
  }
  return null;
}

/**
 * The initial SELECT of a connection failed. The client continues with database 0, which belongs to others, so the
 * connection must be closed.
 */
export function isWithoutDatabase(error: Error): boolean {
  return (error as { command?: { name?: unknown } }).command?.name === "select";
}

function fault(kind: RedisFaultKind, message: string, mayBeDone = false): RedisFault {
  return { kind, message, mayBeDone };
}

/** For logs. The error itself has the command's arguments, and Redis quotes them in some messages. */
export function redisErrorText(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return (text.split(/, with args beginning with|\n/, 1)[0] ?? "").slice(0, 300);
}
