import { secretSchema } from "./secret.ts";

/** Where a Redis is and who asks it. Holds the password: never to be printed whole (see {@link redisPlaceText}). */
export interface RedisPlace {
  readonly tls: boolean;
  /** One server; of a Cluster or of Sentinels, any number of them, of which one must answer. At least one. */
  readonly hosts: readonly RedisHost[];
  /** Empty: the user `default`. */
  readonly username: string;
  /** Empty: none. */
  readonly password: string;
  readonly db: number;
}

export interface RedisHost {
  readonly host: string;
  readonly port: number;
}

const form = /^(rediss?):\/\/(?:([^@/?#]*)@)?([^@/?#]+)(?:\/(\d{1,4})?)?$/;
const hostForm = /^(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::(\d{1,5}))?$/;

/**
 * Reads `redis://user:password@host:port/db`, `rediss://` for TLS; several hosts are parted by commas. User and password
 * are percent-encoded. Null when it is none.
 */
export function readRedisUrl(text: string): RedisPlace | null {
  const match = form.exec(text);
  if (match === null) return null;
  const [, scheme, credentials = "", hostsText = "", db = "0"] = match;
  const hosts: RedisHost[] = [];
  for (const hostText of hostsText.split(",")) {
    const found = hostForm.exec(hostText);
    if (found === null) return null;
    const port = Number(found[3] ?? 6379);
    if (port < 1 || port > 65535) return null;
    hosts.push({ host: found[1] ?? found[2] ?? "", port });
  }
  try {
    const colon = credentials.indexOf(":");
    const username = decodeURIComponent(colon === -1 ? credentials : credentials.slice(0, colon));
    const password = colon === -1 ? "" : decodeURIComponent(credentials.slice(colon + 1));
    // A user without a password asks for nothing that Redis knows; the password was probably forgotten.
    if (username !== "" && password === "") return null;
    return { tls: scheme === "rediss", hosts, username, password, db: Number(db) };
  } catch {
    return null;
  }
}

/** For logs and screens: `redis://host:6379/0`, without user and password. */
export function redisPlaceText({ tls, hosts, db }: RedisPlace): string {
  const names = hosts.map(({ host, port }) => `${host.includes(":") ? `[${host}]` : host}:${port}`);
  return `${tls ? "rediss" : "redis"}://${names.join(",")}/${db}`;
}

/** In the settings. A secret as a whole, because a password is in it. */
export const redisUrlSchema = secretSchema.refine(
  (url) => readRedisUrl(url.reveal()) !== null,
  "is not a Redis URL, such as redis://user:password@host:6379/0, or rediss:// with TLS (in user and password, / ? # @ : and % are percent-encoded)",
);
