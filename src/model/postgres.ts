import { secretSchema } from "./secret.ts";

/**
 * The address of a PostgreSQL database and its credentials. Never print it as a whole (see {@link
 * postgresPlaceText}).
 */
interface PostgresPlace {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
  readonly database: string;
  /** Encrypted, and the certificate of the server is verified. */
  readonly isEncrypted: boolean;
}

const form =
  /^postgres(?:ql)?:\/\/(?:([^@/?#:]*)(?::([^@/?#]*))?@)?(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]*))(?::(\d{1,5}))?\/([^/?#]+)(?:\?([^#]*))?$/;
const sslModes: ReadonlyMap<string, boolean> = new Map([
  ["disable", false],
  ["require", true],
  ["verify-full", true],
]);
const parameters = new Set(["sslmode", "host", "port"]);

/**
 * Reads `postgres://user:password@host:port/database`, percent-encoded, with `?sslmode=require` for
 * TLS or `?host=/folder` for a Unix socket. Null when the text is no such URL.
 */
export function readPostgresUrl(text: string): PostgresPlace | null {
  const match = form.exec(text);
  if (match === null) return null;
  const [, owner = "", secret = "", ipv6, name = "", ownPort = "5432", path = "", query = ""] =
    match;
  const given = new URLSearchParams(query);
  for (const key of given.keys()) if (!parameters.has(key)) return null;
  const host = given.get("host") ?? ipv6 ?? name;
  const port = Number(given.get("port") ?? ownPort);
  const isEncrypted = sslModes.get(given.get("sslmode") ?? "disable");
  if (host === "" || !(port >= 1 && port <= 65_535) || isEncrypted === undefined) return null;
  try {
    const [user, password, database] = [
      decodeURIComponent(owner),
      decodeURIComponent(secret),
      decodeURIComponent(path),
    ];
    return user === "" ? null : { host, port, user, password, database, isEncrypted };
  } catch {
    return null;
  }
}

export function postgresPlaceText({ host, port, database }: PostgresPlace): string {
  if (host.startsWith("/")) return `postgres:///${database}?host=${host}&port=${port}`;
  return `postgres://${host.includes(":") ? `[${host}]` : host}:${port}/${database}`;
}

export const postgresUrlSchema = secretSchema.refine(
  (url) => readPostgresUrl(url.reveal()) !== null,
  "is not a PostgreSQL URL, such as postgres://user:password@host:5432/database, or with ?sslmode=require for TLS (in user, password and database, / ? # @ : and % are percent-encoded)",
);
