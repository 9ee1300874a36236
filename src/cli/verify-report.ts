import { durationText } from "../config/human-units.ts";
import { resolveScheme } from "../event/signature-scheme.ts";
import type { SignatureSettings } from "../event/signature-settings.ts";

/** What was found out with one secret. */
export interface SecretReport {
  /** Where the secret came from, such as `WEBHOOK_SECRET`; never the secret. */
  readonly name: string;
  readonly fingerprint: string;
  /** The environment variable the settings should name. */
  readonly variable: string;
  readonly matches: readonly SignatureSettings[];
  readonly hints: readonly string[];
  /** False: the request is authenticated in a way that no settings describe. */
  readonly isSupported: boolean;
}

/** The lines for a person: what matches, and the settings to paste. */
export function describeMatch(report: SecretReport, headers: Readonly<Record<string, string>>): string[] {
  const [first, ...others] = report.matches;
  if (first === undefined) return [];
  const also =
    others.length === 0
      ? []
      : [
          "",
          "This capture cannot tell these apart from it; another capture may:",
          ...others.flatMap((other) => yamlLines(other, report.variable)),
        ];
  return [
    `Proved by the secret ${report.name} (fingerprint ${report.fingerprint}).`,
    "",
    ...Object.entries(axesOf(first, headers)).map(([axis, value]) => `  ${axis.padEnd(16)}${value}`),
    "",
    "Settings of the source:",
    ...yamlLines(first, report.variable),
    ...also,
    ...report.hints.map((hint) => `note: ${hint}`),
  ];
}

/** The same for scripts. */
export function reportAsJson(reports: readonly SecretReport[], headers: Readonly<Record<string, string>>): string {
  const secrets = reports.map(({ name, fingerprint, matches, hints, isSupported, variable }) => ({
    secret: name,
    fingerprint,
    matches: matches.map((settings) => ({
      axes: axesOf(settings, headers),
      signature: { ...writable(settings), secrets: [`\${${variable}}`] },
    })),
    hints,
    supported: isSupported,
  }));
  return JSON.stringify({ ok: reports.some(({ matches }) => matches.length > 0), secrets }, null, 2);
}

function axesOf(settings: SignatureSettings, headers: Readonly<Record<string, string>>): Record<string, string> {
  const scheme = resolveScheme(settings);
  const value = headers[scheme.header] ?? "";
  const { timestamp } = scheme;
  return {
    header: scheme.header,
    algorithm: scheme.algorithm,
    encoding: scheme.encoding,
    prefix: scheme.prefixes.find((prefix) => prefix !== "" && value.includes(prefix)) ?? "none",
    content: scheme.content
      .map((part) => (typeof part === "string" ? `{${part}}` : JSON.stringify(part.toString("utf8")).slice(1, -1)))
      .join(""),
    "secret encoding": scheme.secretEncoding,
    ...(timestamp === null
      ? {}
      : { timestamp: timestamp.in === "header" ? `header ${timestamp.name}` : `${timestamp.key}= in ${scheme.header}` }),
    ...(scheme.idHeader === null ? {} : { id: `header ${scheme.idHeader}` }),
    ...(scheme.publicUrl === "" ? {} : { url: `after ${scheme.publicUrl}` }),
  };
}

/** The settings as a person writes them: `5m`, not 300000. */
function writable(settings: SignatureSettings): Record<string, string> {
  const entries = Object.entries(settings).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries.map(([key, value]) => [key, typeof value === "number" ? durationText(value) : String(value)]));
}

function yamlLines(settings: SignatureSettings, variable: string): string[] {
  const lines = Object.entries(writable(settings)).map(([key, value]) => `    ${key}: ${yamlText(value)}`);
  return ["  signature:", ...lines, `    secrets: ["\${${variable}}"]`];
}

/** A text that YAML reads back as the same text: a word or a duration, or else quoted, for which JSON's way is also YAML's. */
function yamlText(text: string): string {
  const isWord = /^[a-z][a-z0-9-]*$/.test(text) && !/^(?:true|false|null|yes|no|on|off|y|n)$/.test(text);
  return isWord || /^[0-9]+(?:ms|[smhd])$/.test(text) ? text : JSON.stringify(text);
}
