import { readFileSync } from "node:fs";
import type { Command } from "commander";
import type { SignatureSettings } from "../model/signature.ts";
import { resolveScheme } from "../model/signature.ts";
import { durationText } from "../model/units.ts";
import { CommandFailed, type Io } from "./io.ts";
import { several } from "./options.ts";
import { print } from "./output.ts";
import { type OptionsOf, typed } from "./typed.ts";

/** Adds `verify`: finds how a captured request was signed. Exit code 0 when a combination verifies it, else 1. */
export function build(command: Command, io: Io): void {
  declare(command).action((options) => verify(command, options, io));
}

type Options = OptionsOf<typeof declare>;

function declare(command: Command) {
  return typed(command)
    .option("--secret-env <name>", "the secret is in this environment variable; may be repeated", several, [])
    .option("--secret-file <file>", "the secret is in this file; may be repeated", several, [])
    .option("--secret <text>", "the secret itself (other users of this machine can see it)", several, [])
    .option("--request <file>", "the captured request: request line, headers, blank line, body; - for standard input")
    .option("--body <file>", "only the captured body, byte for byte; - for standard input")
    .option("-H, --header <header>", 'a header of the request, as "name: value"; may be repeated', several, [])
    .option("--method <method>", "the request's method (default: as captured, or POST)")
    .option("--url <url>", "the URL that the request was sent to, for schemes that sign it (default: as captured)")
    .option("--json", "print what was found as JSON")
    .addHelpText(
      "after",
      `
Exit code 1: no known scheme verifies the request; hints name what was noticed.

Examples:
  wamid-relay verify --secret-env WEBHOOK_SECRET --request captured.http
  wamid-relay verify --secret-env WEBHOOK_SECRET --body body.json -H "x-acme-signature: 5d41…"`,
    );
}

interface NamedSecret {
  readonly name: string;
  readonly variable: string;
  readonly text: string;
}

/** Reports how the captured request was signed. Throws {@link CommandFailed} when no combination verifies it. */
async function verify(command: Command, options: Options, io: Io): Promise<void> {
  if ((options.request === undefined) === (options.body === undefined)) command.error("error: give --request or --body");
  const secrets = readSecrets(command, options, io);
  if (secrets.length === 0) command.error("error: give the secret with --secret-env, --secret-file or --secret");
  if (options.secret.length > 0) io.err("warning: --secret shows the secret to everybody who can list processes; --secret-env does not");

  const request = await readRequest(command, options, io);
  printReports(await reportsOf(secrets, request), request, options.json === true, io);
}

type SecretReport = Awaited<ReturnType<typeof reportsOf>>[number];

/** What was found with each secret. `name`: where the secret came from; `variable`: the environment variable the settings should name. */
async function reportsOf(secrets: readonly NamedSecret[], request: RawRequest) {
  const [{ guessSignature }, { Secret }, { parseEnvelope }] = await Promise.all([
    import("../receive/signature/guess.ts"),
    import("../model/secret.ts"),
    import("../model/envelope.ts"),
  ]);
  const envelope = parseEnvelope(request.body);
  return secrets.map(({ name, variable, text }) => {
    const guess = guessSignature({ ...request, secret: text, nowMs: Date.now() });
    const isQuarantined = guess.matches.length > 0 && !envelope.ok;
    const hints = isQuarantined ? [...guess.hints, `a source of kind events would quarantine this body: ${envelope.error}`] : guess.hints;
    return { name, variable, fingerprint: new Secret(text).fingerprint(), ...guess, hints };
  });
}

function printReports(reports: readonly SecretReport[], request: RawRequest, asJson: boolean, io: Io): void {
  const verified = reports.filter(({ matches }) => matches.length > 0);
  print(io, { json: asJson }, reportAsJson(reports, request.headers), () =>
    verified.flatMap((report) => [...describeMatch(report, request.headers)]),
  );
  if (verified.length > 0) return;
  if (!asJson) {
    const hints = reports.flatMap(({ name, hints }) => hints.map((hint) => (reports.length === 1 ? hint : `${name}: ${hint}`)));
    for (const hint of hints) io.err(`hint: ${hint}`);
  }
  if (reports.some(({ isSupported }) => !isSupported)) {
    throw new CommandFailed(
      'this request is authenticated in a way that the relay does not support; see docs/reference/signatures.md, "Not supported"',
    );
  }
  throw new CommandFailed("no combination of header, algorithm, encoding and content verifies this request with this secret");
}

function readSecrets(command: Command, options: Options, io: Io): NamedSecret[] {
  const fromEnvironment = options.secretEnv.map((name): NamedSecret => {
    const text = io.env[name];
    if (text === undefined || text === "") command.error(`error: the environment variable ${name} is not set`);
    return { name, variable: name, text };
  });
  const fromFiles = options.secretFile.map((file): NamedSecret => {
    // Editors and echo end a file with a line break that is not part of the secret.
    const text = readBytes(file)
      .toString("utf8")
      .replace(/\r?\n$/, "");
    if (text === "") throw new CommandFailed(`${file} is empty`);
    return { name: `in ${file}`, variable: "WEBHOOK_SECRET", text };
  });
  const fromArguments = options.secret.map((text, index): NamedSecret => {
    if (text === "") command.error("error: --secret is empty");
    return { name: options.secret.length === 1 ? "of --secret" : `no. ${index + 1} of --secret`, variable: "WEBHOOK_SECRET", text };
  });
  return [...fromEnvironment, ...fromFiles, ...fromArguments];
}

async function readRequest(command: Command, options: Options, io: Io): Promise<RawRequest> {
  const file = options.request ?? options.body ?? "-";
  const bytes = file === "-" ? await io.readStdin() : readBytes(file);
  let captured: RawRequest;
  try {
    captured = options.request === undefined ? { method: "POST", url: "/", headers: {}, body: bytes } : parseRawRequest(bytes);
  } catch (error) {
    if (error instanceof NotARequest) throw new CommandFailed(`${file}: ${error.message}`);
    throw error;
  }
  // Node gives a header's bytes as one character each; the terminal gives UTF-8.
  const given = options.header.map((line) => {
    try {
      return parseHeader(Buffer.from(line, "utf8").toString("latin1"));
    } catch (error) {
      return command.error(`error: -H: ${(error as Error).message}`);
    }
  });
  return {
    method: options.method ?? captured.method,
    url: options.url ?? captured.url,
    headers: { ...captured.headers, ...joinHeaders(given) },
    body: captured.body,
  };
}

function readBytes(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new CommandFailed(`cannot read ${file}: ${(error as NodeJS.ErrnoException).code}`);
  }
}

/** The lines for a person: what matches, and the settings to paste. */
function describeMatch(report: SecretReport, headers: Readonly<Record<string, string>>): string[] {
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
    `Verified with the secret ${report.name} (fingerprint ${report.fingerprint}).`,
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
function reportAsJson(reports: readonly SecretReport[], headers: Readonly<Record<string, string>>) {
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

/** The text as a YAML scalar: a plain word or duration, else quoted. JSON quoting is valid YAML. */
function yamlText(text: string): string {
  const isWord = /^[a-z][a-z0-9-]*$/.test(text) && !/^(?:true|false|null|yes|no|on|off|y|n)$/.test(text);
  return isWord || /^[0-9]+(?:ms|[smhd])$/.test(text) ? text : JSON.stringify(text);
}

/** An HTTP/1 request as it was captured from the wire or a proxy's log. */
interface RawRequest {
  readonly method: string;
  /** The request target, or the whole URL where the request line holds one. */
  readonly url: string;
  /** Names in lower case; a name given twice is joined with ", ", as Node does. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** The bytes are not an HTTP/1 request. The message names the fault. */
export class NotARequest extends Error {
  override readonly name = "NotARequest";
}

/**
 * Reads request line, headers, blank line and body. Lines may end in CRLF or LF. The body is as long as
 * Content-Length says, so that a line break an editor put at the end does not count; chunks are put together.
 * Throws {@link NotARequest}.
 */
export function parseRawRequest(bytes: Buffer): RawRequest {
  // latin1 keeps one character a byte, as Node's own header strings do.
  const text = bytes.toString("latin1");
  const blank = /\r?\n\r?\n/.exec(text);
  const head = blank === null ? text.trimEnd() : text.slice(0, blank.index);
  const rest = blank === null ? Buffer.alloc(0) : bytes.subarray(blank.index + blank[0].length);
  const [requestLine = "", ...lines] = head.split(/\r?\n/);
  const line = /^([A-Za-z]+) (\S+)(?: HTTP\/[0-9.]+)?$/.exec(requestLine.trimEnd());
  if (line === null) throw new NotARequest("the first line is no request line (like POST /webhooks/main HTTP/1.1)");
  const headers = joinHeaders(lines.map(parseHeader));
  return { method: line[1] as string, url: line[2] as string, headers, body: bodyOf(headers, rest) };
}

/** A `name: value` line. Throws {@link NotARequest}. */
function parseHeader(line: string): [string, string] {
  const match = /^([A-Za-z0-9!#$%&'*+.^_`|~-]+):[ \t]*(.*?)[ \t]*$/s.exec(line);
  if (match === null) throw new NotARequest(`not a header (like "name: value"): ${line.slice(0, 24)}${line.length > 24 ? "…" : ""}`);
  return [(match[1] as string).toLowerCase(), match[2] as string];
}

function joinHeaders(pairs: readonly (readonly [string, string])[]): Record<string, string> {
  const headers = new Map<string, string>();
  for (const [name, value] of pairs) {
    const earlier = headers.get(name);
    headers.set(name, earlier === undefined ? value : `${earlier}, ${value}`);
  }
  return Object.fromEntries(headers);
}

function bodyOf(headers: Readonly<Record<string, string>>, rest: Buffer): Buffer {
  if (/\bchunked\b/i.test(headers["transfer-encoding"] ?? "")) return joinChunks(rest);
  const length = headers["content-length"];
  if (length === undefined || !/^[0-9]+$/.test(length)) return rest;
  if (rest.length < Number(length)) throw new NotARequest(`the body has ${rest.length} bytes, and Content-Length says ${length}`);
  return rest.subarray(0, Number(length));
}

function joinChunks(rest: Buffer): Buffer {
  const chunks: Buffer[] = [];
  let at = 0;
  for (;;) {
    const end = rest.indexOf("\r\n", at);
    const size = end < 0 ? null : /^([0-9a-fA-F]{1,8})(?:;.*)?$/.exec(rest.toString("latin1", at, end));
    // Many tools show a chunked request with its chunks already put together.
    if (size === null && chunks.length === 0) return rest;
    const length = Number.parseInt(size?.[1] ?? "", 16);
    if (size === null || end + 2 + length > rest.length) throw new NotARequest("the chunks of the body are not whole");
    if (length === 0) return Buffer.concat(chunks);
    chunks.push(rest.subarray(end + 2, end + 2 + length));
    at = end + 2 + length + 2;
  }
}
