import type { z } from "zod";
import type { CommonSettings, UrlDestinationSettings } from "../deliver/settings.ts";
import { suggestion } from "../model/nearest.ts";
import type { Secret } from "../model/secret.ts";
import { decodeKey, resolveScheme } from "../model/signature.ts";
import { isApiKey } from "../service/settings.ts";
import type { SettingsPath } from "./fault.ts";
import { isPrivateHost } from "./private-address.ts";
import {
  onlyAccount,
  type RouteSettings,
  readOnce,
  routeSchema,
  type Settings,
  sourceSchema,
  type TokenSettings,
  tokenSchema,
} from "./schema.ts";
import type { Finding } from "./tree.ts";

type SourceInFile = z.infer<typeof sourceSchema>;

/** The valid parts of a settings file, with the names that others refer to. */
interface Parts {
  readonly accounts: readonly string[];
  /** Names of all sources, including invalid ones. */
  readonly sourceNames: readonly string[];
  readonly sources: readonly (readonly [string, SourceInFile])[];
  readonly routes: readonly (readonly [number, RouteSettings])[];
  readonly tokens: readonly (readonly [number, TokenSettings])[];
}

/** A fault in one part must not hide the faults between the others, so each part is parsed separately. */
function validParts(value: unknown, valid: Pick<Settings, "routes" | "control"> | undefined): Parts {
  const top = entries(value);
  const sources = entries(top["sources"]);
  return {
    accounts: Object.keys(entries(top["accounts"])),
    sourceNames: Object.keys(sources),
    sources: validOf(Object.entries(sources), sourceSchema),
    routes: [...(valid?.routes.entries() ?? validOf(list(top["routes"]).entries(), routeSchema))],
    tokens: [...(valid?.control.tokens.entries() ?? validOf(list(entries(top["control"])["tokens"]).entries(), tokenSchema))],
  };
}

function validOf<Key, Part>(items: Iterable<readonly [Key, unknown]>, schema: z.ZodType<Part>): (readonly [Key, Part])[] {
  return [...items].flatMap(([key, raw]) => {
    const parsed = schema.safeParse(raw, readOnce);
    return parsed.success ? [[key, parsed.data] as const] : [];
  });
}

function entries(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Only the file of the embedded engine is backed up by the relay. */
function checkBackup(top: Readonly<Record<string, unknown>>): Finding[] {
  const { schedule = "off" } = entries(top["backup"]);
  const { driver = "sqlite" } = entries(top["storage"]);
  if (driver === "sqlite" || schedule === "off") return [];
  return [
    {
      path: ["backup", "schedule"],
      message: "needs storage.driver sqlite; back up the database server itself, as docs/how-to/back-up-and-restore.md describes",
    },
  ];
}

/** Of `server.port`. */
const defaultPort = 8080;

/** Shortest control token, which guards people's messages. 16 characters of hex are 64 bits. */
const shortestToken = 16;

/**
 * Faults between parts that are valid on their own. `valid`: the settings as parsed, when every part is valid. Never quotes a
 * value: it may come from the environment.
 */
export function checkReferences(settings: unknown, valid?: Settings): Finding[] {
  const parts = validParts(settings, valid);
  return [
    ...checkBackup(entries(settings)),
    ...parts.sources.flatMap(([name, source]) => checkSource(name, source, parts)),
    ...parts.routes.flatMap(([index, route]) => {
      const path = ["routes", index];
      const signature: Finding[] =
        route.to.passSignature && route.payload === "enriched"
          ? [{ path: [...path, "to", "passSignature"], message: "could never verify: payload enriched changes the bytes that were signed" }]
          : [];
      return [
        ...checkBytes(route, parts, path),
        ...checkNames(route.match.sources, parts.sourceNames, "source", [...path, "match", "sources"]),
        ...checkNames(route.match.accounts, parts.accounts, "account", [...path, "match", "accounts"]),
        ...signature,
        ...checkOutgoingSecrets(route.to, [...path, "to"]),
        ...("url" in route.to
          ? [...checkAddress(route.to, [...path, "to", "url"]), ...checkMetaSignature(route.to, [...path, "to", "signature"])]
          : []),
      ];
    }),
    ...repeated(parts.routes.map(([index, route]) => [index, route.name])).map(([index, first]) => ({
      path: ["routes", index, "name"],
      message: `is the name of routes[${first}] too; names of routes are unique`,
    })),
    ...checkTokens(parts.tokens),
    ...parts.tokens.flatMap(([index, { accounts }]) =>
      checkNames(accounts, parts.accounts, "account", ["control", "tokens", index, "accounts"]),
    ),
    ...checkControlPort(entries(entries(settings)["server"])),
  ];
}

/** Signatures of requests with several events are of no use to a destination that gets one of them. */
function checkBytes({ match, to }: RouteSettings, { sources }: Parts, path: SettingsPath): Finding[] {
  const matched = sources.find(([name, source]) => isMeta(source) && (match.sources === undefined || match.sources.includes(name)));
  if (!to.passSignature || matched === undefined) return [];
  const message = `could not verify events of the source "${matched[0]}", whose requests have several: use to.signature, or match.sources`;
  return [{ path: [...path, "to", "passSignature"], message }];
}

/** Both would be refused at the start, and only there. */
function checkControlPort({ port = defaultPort, control }: Readonly<Record<string, unknown>>): Finding[] {
  if (entries(control)["port"] !== port) return [];
  return [{ path: ["server", "control", "port"], message: "is server.port too: the control API needs a port of its own" }];
}

function checkSource(name: string, source: SourceInFile, parts: Parts): Finding[] {
  const path = ["sources", name];
  const isMapped = isMeta(source) && source.accounts !== undefined;
  const findings = isMapped && source.account === undefined ? [] : checkAccount(source.account, parts.accounts, path);
  findings.push(...checkSecrets(source, [...path, "signature", "secrets"]));
  if (isMeta(source)) {
    for (const [number, account] of Object.entries(source.accounts ?? {}))
      findings.push(...checkNames([account], parts.accounts, "account", [...path, "accounts"], number));
    if ([source.signature, source.header, source.pathSecrets].every((check) => check === undefined))
      findings.push({ path: [...path, "signature"], message: "is missing: a source needs signature, header or pathSecrets" });
  }
  if (source.kind !== "automation-request") return findings;
  if (source.mode === "proxy" && source.to === undefined) {
    findings.push({ path: [...path, "to"], message: "is missing: mode proxy needs it to know where the request goes" });
  }
  if (source.mode === "ack" && source.to !== undefined) {
    findings.push({ path: [...path, "to"], message: "is for mode proxy; with mode ack, events go to the routes" });
  }
  if (source.to !== undefined) {
    findings.push(...checkAddress(source.to, [...path, "to", "url"]), ...checkOutgoingSecrets(source.to, [...path, "to"]));
  }
  return findings;
}

function isMeta(source: SourceInFile): source is Extract<SourceInFile, { format: "meta" }> {
  return source.kind === "events" && source.format === "meta";
}

/** A source may leave its account out when there is only one. */
function checkAccount(account: string | undefined, accounts: readonly string[], path: SettingsPath): Finding[] {
  if (account !== undefined) return checkNames([account], accounts, "account", path, "account");
  if (onlyAccount(accounts) !== undefined) return [];
  const message =
    accounts.length === 0
      ? "is missing, and accounts is empty: add one, such as main: {}"
      : `is missing: name one of ${accounts.join(", ")}`;
  return [{ path: [...path, "account"], message }];
}

function checkSecrets({ signature }: SourceInFile, path: SettingsPath): Finding[] {
  if (signature === undefined) return [];
  const { secretEncoding } = resolveScheme(signature);
  const findings = checkRepeats(signature.secrets, path);
  for (const [index, secret] of signature.secrets.entries()) {
    try {
      decodeKey(secret.reveal(), secretEncoding);
    } catch {
      findings.push({ path: [...path, index], message: `is not in the encoding of secretEncoding (${secretEncoding})` });
    }
  }
  return findings;
}

function checkOutgoingSecrets({ secret, secrets = [] }: Pick<CommonSettings, "secret" | "secrets">, path: SettingsPath): Finding[] {
  const both: Finding[] =
    secret !== undefined && secrets.length > 0
      ? [{ path: [...path, "secrets"], message: "is given beside secret; give one of the two" }]
      : [];
  return [...both, ...checkRepeats(secrets, [...path, "secrets"])];
}

/** The other two would sign other bytes, or write the same header. */
function checkMetaSignature({ signature, secret, secrets, passSignature }: UrlDestinationSettings, path: SettingsPath): Finding[] {
  if (signature === undefined) return [];
  const others = [secret !== undefined && "secret", secrets !== undefined && "secrets", passSignature && "passSignature"];
  return others.flatMap((key) => (key === false ? [] : [{ path, message: `is given beside ${key}; give one of the two` }]));
}

function checkRepeats(secrets: readonly Secret[], path: SettingsPath): Finding[] {
  return repeated(secrets.map((secret, index) => [index, secret.reveal()])).map(([index, first]) => ({
    path: [...path, index],
    message: `is the same secret as secrets[${first}]`,
  }));
}

function checkTokens(tokens: Parts["tokens"]): Finding[] {
  const unique = (key: "name" | "token", text: (token: TokenSettings) => string): Finding[] =>
    repeated(tokens.map(([index, token]) => [index, text(token)])).map(([index, first]) => ({
      path: ["control", "tokens", index, key],
      message: `is the ${key} of control.tokens[${first}] too`,
    }));
  const faulty = (message: string, isFaulty: (token: Secret) => boolean): Finding[] =>
    tokens.flatMap(([index, { token }]) => (isFaulty(token) ? [{ path: ["control", "tokens", index, "token"], message }] : []));
  return [
    ...unique("name", (token) => token.name),
    ...unique("token", (token) => token.token.reveal()),
    ...faulty("holds characters that no Authorization header carries (a space or line break?)", (token) => !isApiKey(token)),
    ...faulty(
      `is shorter than ${shortestToken} characters ("openssl rand -hex 32" makes a good one)`,
      (token) => token.reveal().length < shortestToken,
    ),
  ];
}

/** `key` is set when the name stands alone under it, not in a list. */
function checkNames(
  names: readonly string[] | undefined,
  known: readonly string[],
  what: string,
  path: SettingsPath,
  key?: string,
): Finding[] {
  return (names ?? []).flatMap((name, index) => {
    if (known.includes(name)) return [];
    const hint = suggestion(name, known, `${what}s is empty`);
    return [{ path: [...path, key ?? index], message: `names no ${what} of this file (${hint})` }];
  });
}

function checkAddress(to: UrlDestinationSettings, path: SettingsPath): Finding[] {
  if (to.allowPrivate || !isPrivateHost(to.url)) return [];
  return [
    { path, message: "is a loopback, private or otherwise not public address; if that is intended, set allowPrivate: true beside it" },
  ];
}

/** Indices of items that repeat an earlier text, each with the index of its first occurrence. */
function repeated(items: readonly (readonly [number, string])[]): [number, number][] {
  const seen = new Map<string, number>();
  return items.flatMap(([index, text]): [number, number][] => {
    const first = seen.get(text);
    if (first !== undefined) return [[index, first]];
    seen.set(text, index);
    return [];
  });
}
