import { readFileSync, statSync } from "node:fs";
import type { VariableSources } from "../../config/env-file.ts";
import { faultLine, SettingsError } from "../../config/fault.ts";
import { loadSettings } from "../../config/load.ts";
import type { Settings } from "../../config/schema.ts";
import { warnings } from "../../config/warnings.ts";
import type { SecretUse } from "../../model/answers/relay.ts";
import { readPostgresUrl } from "../../model/postgres.ts";
import { Secret } from "../../model/secret.ts";
import { spanText } from "../../model/unit-text.ts";
import { readRedisUrl } from "../../net/redis.ts";
import { expiryOf } from "../../net/tls.ts";
import { counted } from "../output.ts";
import { type Finding, fail, ok, warn } from "./finding.ts";

export function checkSettings(
  path: string,
  { env, envFile }: VariableSources,
): { readonly settings: Settings | null; readonly findings: Finding[] } {
  let settings: Settings;
  try {
    settings = loadSettings(path, env, envFile);
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    const todo = "correct it; docs/reference/settings.md";
    return {
      settings: null,
      findings: error.faults.map((fault) => fail("settings", faultLine(fault), todo)),
    };
  }
  const sums = `${counted(settings.sources, "source")}, ${counted(settings.routes, "route")}`;
  const found = warnings(settings).map(({ path: at, message }) =>
    warn("settings", `${at}: ${message}`, "see docs/reference/settings.md"),
  );
  return { settings, findings: [ok("settings", `${path} is valid: ${sums}`), ...found] };
}

export function checkReaders(path: string, settings: Settings): Finding {
  const check = "settings file";
  const text = readFileSync(path, "utf8");
  const literal = [...secretsIn(settings)].filter(
    (secret) => isTelling(secret) && text.includes(secret.reveal()),
  ).length;
  if (literal === 0) return ok(check, "holds no secret itself");
  if ((statSync(path).mode & 0o004) === 0)
    return ok(check, `holds ${counted(literal, "secret")}, and not everybody may read it`);
  const message = `${path} holds ${counted(literal, "secret")} in clear, and every user of this machine may read it`;
  return warn(
    check,
    message,
    `chmod o-r ${path}, or put the secrets into the environment as \${NAME}`,
  );
}

/** The URL of a server is kept as a secret for the password that may be in it. */
function isTelling(secret: Secret): boolean {
  const text = secret.reveal();
  return (readRedisUrl(text) ?? readPostgresUrl(text))?.password !== "";
}

/** All header values are stored as secrets; only those whose name suggests a secret count here. */
const tellingHeader = /auth|cookie|key|token|secret|password|signature/i;

function* secretsIn(value: unknown): Generator<Secret> {
  if (value instanceof Secret) yield value;
  else if (typeof value === "object" && value !== null) {
    for (const [key, part] of Object.entries(value)) {
      yield* secretsIn(
        key === "headers"
          ? Object.entries(part).flatMap(([name, text]) => (tellingHeader.test(name) ? [text] : []))
          : part,
      );
    }
  }
}

/**
 * A secret that verified nothing for this long, while another one did, is unused. The service's
 * document shows no retry schedule; a day exceeds the longest retry gap of any service we know.
 */
const quietMs = 24 * 3_600_000;

/**
 * Which secret of each source still verifies events, and which is safe to drop, from the usage that
 * a relay or store reports.
 */
export function assessSecrets(reported: readonly SecretUse[], now: number): Finding[] {
  const placed = reported.filter(({ place }) => place !== null);
  return placed.map((use) => {
    const own = placed.filter(({ source }) => source === use.source);
    const others = own
      .filter((other) => other !== use)
      .map(({ lastAt }) => (lastAt === null ? 0 : Date.parse(lastAt)));
    return assessUse(use, use === own[0], Math.max(0, ...others), now);
  });
}

/** `othersAt`: last use of another secret of the source; 0: never, or there is no other. */
function assessUse(use: SecretUse, isFirst: boolean, othersAt: number, now: number): Finding {
  const check = "secrets";
  const name = `${use.source}: ${use.place?.split(".").at(-1)} (${use.secret})`;
  if (use.lastAt === null) {
    if (othersAt === 0) return ok(check, `${name} has verified nothing yet`);
    // The settings name the new one first.
    if (!isFirst)
      return ok(
        check,
        `${name} has never verified anything: safe to drop, unless it is the new one`,
      );
    const todo =
      "start or reload the relay with it first; then give it to the service, and keep the other one until it signs";
    return warn(check, `${name} has verified nothing: the service does not sign with it yet`, todo);
  }
  const lastAt = Date.parse(use.lastAt);
  const silentMs = now - lastAt;
  const silent = spanText(silentMs);
  const sums = `${counted(use.events, "event")} since ${use.firstAt}`;
  const isInUse = othersAt <= lastAt;
  if (!isInUse && silentMs >= quietMs)
    return ok(
      check,
      `${name} has verified nothing for ${silent}, while another one did (before that ${sums}): safe to drop`,
    );
  const advice = isInUse
    ? "in use"
    : `keep it until it has verified nothing for ${spanText(quietMs)}`;
  return ok(check, `${name} verified ${sums}, the last one ${silent} ago: ${advice}`);
}

const expiresSoonMs = 14 * 86_400_000;

export function assessExpiries(
  {
    server,
    accounts,
    routes,
    sources,
  }: Pick<Settings, "server" | "accounts" | "routes" | "sources">,
  now: number,
): Finding[] {
  const places = [
    ["server.tls", server.tls] as const,
    ["server.control.tls", server.control?.tls] as const,
    ...Object.entries(accounts).map(([name, { tls }]) => [`accounts.${name}.tls`, tls] as const),
    ...routes.map(({ name, to }) => [`tls of the route ${name}`, to.tls] as const),
    ...Object.entries(sources).map(
      ([name, source]) =>
        [`sources.${name}.to.tls`, "to" in source ? source.to?.tls : undefined] as const,
    ),
  ];
  return places.flatMap(([place, tls]) => {
    const at = expiryOf(tls);
    if (at === null || at > now + expiresSoonMs) return [];
    const day = new Date(at).toISOString().slice(0, 10);
    const [make, word] = at <= now ? ([fail, "expired"] as const) : ([warn, "expires"] as const);
    return [make("certificate", `${place}: ${word} on ${day}`, "renew it, and reload")];
  });
}
