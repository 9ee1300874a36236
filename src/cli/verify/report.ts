import { parseEnvelope } from "../../model/envelope.ts";
import { Secret } from "../../model/secret.ts";
import { resolveScheme, type SignatureSettings } from "../../model/signature.ts";
import { durationText } from "../../model/unit-text.ts";
import { guessSignature } from "../../receive/signature/guess.ts";
import type { Io } from "../io.ts";
import { yamlText } from "../yaml-text.ts";
import type { RawRequest } from "./captured.ts";

export interface NamedSecret {
  readonly name: string;
  /** The environment variable that the settings should name. */
  readonly variable: string;
  readonly text: string;
}

type SecretReport = ReturnType<typeof reportsOf>[number];

export function reportsOf(secrets: readonly NamedSecret[], request: RawRequest) {
  const envelope = parseEnvelope(request.body);
  const fault = envelope.ok || isMetaBody(request.body) ? null : envelope.error;
  return secrets.map(({ name, variable, text }) => {
    const guess = guessSignature({ ...request, secret: text, nowMs: Date.now() });
    const isQuarantined = guess.matches.length > 0 && fault !== null;
    const hints = isQuarantined
      ? [...guess.hints, `a source of kind events would quarantine this body: ${fault}`]
      : guess.hints;
    return { name, variable, fingerprint: new Secret(text).fingerprint(), ...guess, hints };
  });
}

export function printHints(reports: readonly SecretReport[], io: Io): void {
  const hints = reports.flatMap(({ name, hints }) =>
    hints.map((hint) => (reports.length === 1 ? hint : `${name}: ${hint}`)),
  );
  for (const hint of hints) io.err(`hint: ${hint}`);
}

/** Whether a body is one of Meta's, or of those who pass them on. */
export function isMetaBody(body: Buffer): boolean {
  try {
    const root = JSON.parse(body.toString("utf8")) as { object?: unknown; entry?: unknown } | null;
    return typeof root?.object === "string" && Array.isArray(root.entry);
  } catch {
    return false;
  }
}

export function describeMatch(report: SecretReport, { headers, body }: RawRequest): string[] {
  const [first, ...others] = report.matches;
  if (first === undefined) return [];
  return [
    `Verified with the secret ${report.name} (fingerprint ${report.fingerprint}).`,
    "",
    ...Object.entries(axesOf(first, headers)).map(
      ([axis, value]) => `  ${axis.padEnd(16)}${value}`,
    ),
    "",
    "Settings of the source:",
    ...(isMetaBody(body) ? ["  format: meta"] : []),
    ...yamlLines(first, report.variable),
    ...(others.length === 0
      ? []
      : ["", "This capture cannot tell these apart from it; another capture may:"]),
    ...others.flatMap((other) => yamlLines(other, report.variable)),
    ...report.hints.map((hint) => `note: ${hint}`),
  ];
}

export function reportAsJson(
  reports: readonly SecretReport[],
  headers: Readonly<Record<string, string>>,
) {
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
  return { ok: reports.some(({ matches }) => matches.length > 0), secrets };
}

function axesOf(
  settings: SignatureSettings,
  headers: Readonly<Record<string, string>>,
): Record<string, string> {
  const scheme = resolveScheme(settings);
  const value = headers[scheme.header] ?? "";
  const { timestamp } = scheme;
  return {
    header: scheme.header,
    algorithm: scheme.algorithm,
    encoding: scheme.encoding,
    prefix: scheme.prefixes.find((prefix) => prefix !== "" && value.includes(prefix)) ?? "none",
    content: scheme.content
      .map((part) =>
        typeof part === "string" ? `{${part}}` : JSON.stringify(part.toString("utf8")).slice(1, -1),
      )
      .join(""),
    "secret encoding": scheme.secretEncoding,
    ...(timestamp === null
      ? {}
      : {
          timestamp:
            timestamp.in === "header"
              ? `header ${timestamp.name}`
              : `${timestamp.key}= in ${scheme.header}`,
        }),
    ...(scheme.idHeader === null ? {} : { id: `header ${scheme.idHeader}` }),
    ...(scheme.publicUrl === "" ? {} : { url: `after ${scheme.publicUrl}` }),
  };
}

/** The settings as a person writes them: `5m`, not 300000. */
function writable(settings: SignatureSettings): Record<string, string> {
  const entries = Object.entries(settings).filter(([, value]) => value !== undefined);
  return Object.fromEntries(
    entries.map(([key, value]) => [
      key,
      typeof value === "number" ? durationText(value) : String(value),
    ]),
  );
}

function yamlLines(settings: SignatureSettings, variable: string): string[] {
  const lines = Object.entries(writable(settings)).map(
    ([key, value]) => `    ${key}: ${plainOrQuoted(value)}`,
  );
  return ["  signature:", ...lines, `    secrets: ["\${${variable}}"]`];
}

function plainOrQuoted(text: string): string {
  const isWord =
    /^[a-z][a-z0-9-]*$/.test(text) && !/^(?:true|false|null|yes|no|on|off|y|n)$/.test(text);
  return isWord || /^[0-9]+(?:ms|[smhd])$/.test(text) ? text : yamlText(text);
}
