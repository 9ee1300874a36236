import { inboundSources } from "../../app/rules.ts";
import { unknownName } from "../../model/nearest.ts";
import { MissingSecret, type Secret } from "../../model/secret.ts";
import { createCheck } from "../../receive/check.ts";
import type { InboundSource } from "../../receive/inbound-source.ts";
import type { SignatureRefusal } from "../../receive/signature/verify.ts";
import { CommandFailed, type Io } from "../io.ts";
import type { SettingsOptions } from "../options.ts";
import { print } from "../output.ts";
import { readForLooking } from "../settings-option.ts";
import type { RawRequest } from "./captured.ts";
import { checkHandshake, printHandshake } from "./handshake.ts";
import { itemLines, itemsOf } from "./items.ts";
import { printHints, reportsOf } from "./report.ts";

const refusals: Readonly<Record<SignatureRefusal, string>> = {
  "missing-signature": "a header or the part of the path that verifies it is missing",
  "malformed-signature": "its signature has another form",
  "missing-timestamp": "the time of its signature is missing",
  "no-match": "none of the source's secrets verifies it",
  "stale-timestamp": "its signature is right, but its time is outside the tolerance now",
};

/** Reports what a source of the settings makes of a request. Throws {@link CommandFailed} when it would refuse it. */
export function verifyAsSource(
  name: string,
  request: RawRequest,
  options: SettingsOptions & { readonly json?: boolean | undefined },
  io: Io,
): void {
  const source = configuredSource(options, name, io);
  const { account, fields, several, signature } = source;
  const handshake = several === undefined ? null : checkHandshake(request, several.verifyTokens);
  if (handshake !== null) {
    printHandshake(handshake, options, io);
    return;
  }
  const verified = createCheck(
    signature,
    several,
  )({ ...request, url: several === undefined ? request.url : targetOf(request.url), nowMs: Date.now() });
  // A captured request is older than the tolerance.
  const isVerified = verified.ok || verified.reason === "stale-timestamp";
  const refusal = verified.ok ? null : verified.reason;
  const secret = verified.ok ? verified.secret : null;
  const accounts = { account, accounts: several?.accounts ?? {} };
  const items =
    isVerified && source.kind === "events"
      ? itemsOf(request.body, { format: several?.format ?? "standard", source: name, fields, accounts })
      : [];
  print(io, options, { ok: isVerified, source: name, secret, refusal, items }, () =>
    isVerified
      ? [
          `The source ${name} verifies it${secret === null ? "" : ` with the secret ${secret} (fingerprint)`}.`,
          ...(refusal === null ? [] : [`note: ${refusals[refusal]}`]),
          ...(items.length === 0 ? [] : ["", ...itemLines(items)]),
        ]
      : [],
  );
  if (isVerified || refusal === null) return;
  if (options.json !== true && signature !== undefined) {
    const secrets = signature.secrets.map((each) => ({
      name: `with the secret ${each.fingerprint()}`,
      variable: "WEBHOOK_SECRET",
      text: each.reveal(),
    }));
    const reports = reportsOf(secrets, request);
    printHints(reports, io);
    if (reports.some(({ matches }) => matches.length > 0))
      io.err("hint: other settings verify it with the same secret; see verify --secret-env");
  }
  throw new CommandFailed(`the source ${name} refuses this request with 401: ${refusals[refusal]}`);
}

/** Path and query, of the whole URL or of a request line. */
function targetOf(url: string): string {
  return url.replace(/^https?:\/\/[^/?]*/i, "");
}

/** A source of the settings, with the secrets that this command can read. */
function configuredSource(options: SettingsOptions, name: string, io: Io): InboundSource {
  const { settings } = readForLooking(options, io, ["accounts", "sources"]);
  const sources = inboundSources(settings);
  const found = sources.find((source) => source.name === name);
  if (found === undefined) {
    const names = sources.map((source) => source.name);
    throw new CommandFailed(`${options.config}: ${unknownName("source", name, names)}`);
  }
  const { signature, several } = found;
  return {
    ...found,
    signature: signature && { ...signature, secrets: readable(signature.secrets) },
    several: several && {
      ...several,
      verifyTokens: several.verifyTokens.filter(isReadable),
      header: several.header && { ...several.header, values: readable(several.header.values) },
      pathSecrets: several.pathSecrets && readable(several.pathSecrets),
    },
  };
}

const isReadable = (secret: Secret): boolean => !(secret instanceof MissingSecret);

function readable(secrets: readonly Secret[]): readonly Secret[] {
  const found = secrets.filter(isReadable);
  if (found.length > 0) return found;
  const why = secrets.flatMap((secret) => (secret instanceof MissingSecret ? [secret.why] : [])).join("; ");
  throw new CommandFailed(`this command cannot read the source's secret: ${why}. Run it with the relay's user and variables`);
}
