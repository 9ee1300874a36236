import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { CommandFailed, type Io } from "./io.ts";
import type { RawRequest } from "./raw-request.ts";
import type { SecretReport } from "./verify-report.ts";

interface VerifyOptions {
  readonly secretEnv: readonly string[];
  readonly secretFile: readonly string[];
  readonly secret: readonly string[];
  readonly request?: string;
  readonly body?: string;
  readonly header: readonly string[];
  readonly method?: string;
  readonly url?: string;
  readonly json?: boolean;
}

interface NamedSecret {
  readonly name: string;
  readonly variable: string;
  readonly text: string;
}

const several = (value: string, earlier: readonly string[]): string[] => [...earlier, value];

/** Adds `verify`: says how a captured request was signed. Exit code 0 when a combination proves it, 1 when none does. */
export function addVerifyCommand(program: Command, io: Io): void {
  const command = program.command("verify");
  command
    .description("say how a captured request was signed, as the settings to paste")
    .option("--secret-env <name>", "the secret is in this environment variable; may be repeated", several, [])
    .option("--secret-file <file>", "the secret is in this file; may be repeated", several, [])
    .option("--secret <text>", "the secret itself (others on this machine can see it in the list of processes)", several, [])
    .option("--request <file>", "the captured request: request line, headers, blank line, body; - for standard input")
    .option("--body <file>", "only the captured body, byte for byte; - for standard input")
    .option("-H, --header <header>", 'a header of the request, as "name: value"; may be repeated', several, [])
    .option("--method <method>", "the request's method (default: as captured, or POST)")
    .option("--url <url>", "the URL the request was sent to, where that may be signed (default: as captured)")
    .option("--json", "print what was found as JSON")
    .addHelpText(
      "after",
      `
Examples:
  wamid-relay verify --secret-env WEBHOOK_SECRET --request captured.http
  wamid-relay verify --secret-env WEBHOOK_SECRET --body body.json -H "x-acme-signature: 5d41…"`,
    )
    .action((options: VerifyOptions) => verify(command, options, io));
}

async function verify(command: Command, options: VerifyOptions, io: Io): Promise<void> {
  if ((options.request === undefined) === (options.body === undefined)) command.error("error: give --request or --body");
  const secrets = readSecrets(command, options, io);
  if (secrets.length === 0) command.error("error: give the secret with --secret-env, --secret-file or --secret");
  if (options.secret.length > 0) io.err("warning: --secret shows the secret to everybody who can list processes; --secret-env does not");

  const request = await readRequest(command, options, io);
  const { guessSignature } = await import("../receive/guess-signature.ts");
  const { Secret } = await import("../event/secret.ts");
  const reports = secrets.map(({ name, variable, text }): SecretReport => {
    const guess = guessSignature({ ...request, secret: text, nowMs: Date.now() });
    return { name, variable, fingerprint: new Secret(text).fingerprint(), ...guess };
  });
  await printReports(reports, request, options.json === true, io);
}

async function printReports(reports: readonly SecretReport[], request: RawRequest, asJson: boolean, io: Io): Promise<void> {
  const { describeMatch, reportAsJson } = await import("./verify-report.ts");
  const proved = reports.filter(({ matches }) => matches.length > 0);
  if (asJson) io.out(reportAsJson(reports, request.headers));
  else for (const report of proved) for (const line of describeMatch(report, request.headers)) io.out(line);
  if (proved.length > 0) return;
  if (!asJson) {
    const hints = reports.flatMap(({ name, hints }) => hints.map((hint) => (reports.length === 1 ? hint : `${name}: ${hint}`)));
    for (const hint of hints) io.err(`hint: ${hint}`);
  }
  if (reports.some(({ isSupported }) => !isSupported)) {
    throw new CommandFailed(
      'this request is authenticated in a way that the relay does not support; see docs/signatures.md, "Not supported"',
    );
  }
  throw new CommandFailed("no combination of header, algorithm, encoding and content proves this request with this secret");
}

function readSecrets(command: Command, options: VerifyOptions, io: Io): NamedSecret[] {
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

async function readRequest(command: Command, options: VerifyOptions, io: Io): Promise<RawRequest> {
  const { joinHeaders, NotARequest, parseHeader, parseRawRequest } = await import("./raw-request.ts");
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
