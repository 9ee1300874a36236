import { readFileSync, statSync } from "node:fs";
import { faultLine, SettingsError } from "../../config/fault.ts";
import { loadSettings } from "../../config/load.ts";
import type { Settings } from "../../config/schema.ts";
import { warnings } from "../../config/warnings.ts";
import { readRedisUrl } from "../../event/redis-url.ts";
import { Secret } from "../../event/secret.ts";
import { type Finding, fail, ok, warn } from "./finding.ts";

/** The settings with their faults and warnings; null when there are faults. */
export function checkSettings(
  path: string,
  env: Readonly<Record<string, string | undefined>>,
): { readonly settings: Settings | null; readonly findings: Finding[] } {
  let settings: Settings;
  try {
    settings = loadSettings(path, env);
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    return { settings: null, findings: error.faults.map((fault) => fail("settings", faultLine(fault), "correct it; docs/settings.md")) };
  }
  const found = warnings(settings).map((warning) => warn("settings", `${warning.path}: ${warning.message}`, "see docs/settings.md"));
  const sums = `${Object.keys(settings.sources).length} sources, ${settings.routes.length} routes`;
  return { settings, findings: [ok("settings", `${path} is valid: ${sums}`), ...found, ...checkReaders(path, settings)] };
}

/** Secrets written into a file that everybody on the machine may read. */
function checkReaders(path: string, settings: Settings): Finding[] {
  const { mode } = statSync(path);
  const text = readFileSync(path, "utf8");
  const literal = [...secretsIn(settings)].filter((secret) => tells(secret) && text.includes(secret.reveal())).length;
  if (literal === 0) return [ok("settings file", "holds no secret itself")];
  if ((mode & 0o004) === 0) return [ok("settings file", `holds ${literal} secrets, and not everybody may read it`)];
  return [
    warn(
      "settings file",
      `${path} holds ${literal} secrets in clear, and every user of this machine may read it`,
      `chmod o-r ${path}, or put the secrets into the environment as \${NAME}`,
    ),
  ];
}

/** A Redis URL is kept as a secret for the password that may be in it. */
function tells(secret: Secret): boolean {
  return readRedisUrl(secret.reveal())?.password !== "";
}

/** All header values are kept as secrets, but most tell nothing: those count whose name says that they do. */
const tellingHeader = /auth|cookie|key|token|secret|password|signature/i;

function* secretsIn(value: unknown): Generator<Secret> {
  if (value instanceof Secret) yield value;
  else if (typeof value === "object" && value !== null) {
    for (const [key, part] of Object.entries(value)) {
      yield* secretsIn(key === "headers" ? Object.entries(part).flatMap(([name, text]) => (tellingHeader.test(name) ? [text] : [])) : part);
    }
  }
}
