import { type Command, InvalidArgumentError } from "commander";
import { isLoopbackHost } from "../../config/private-address.ts";
import type { Settings, SourceSettings } from "../../config/schema.ts";
import { unknownName } from "../../model/nearest.ts";
import { MissingSecret, type Secret } from "../../model/secret.ts";
import { findSchemeFaults, type SignatureSettings, signatureSettingsSchema } from "../../model/signature.ts";
import type { ListenTls } from "../../model/tls.ts";
import { rateSchema } from "../../model/units.ts";
import { CommandFailed, type Io } from "../io.ts";
import type { SettingsOptions } from "../options.ts";
import { ownAddress } from "../reach-relay.ts";
import { readForLooking, readPart } from "../settings-option.ts";

export interface TargetOptions extends SettingsOptions {
  readonly source?: string | undefined;
  readonly url?: string | undefined;
  readonly secretEnv?: readonly string[] | undefined;
  readonly service?: string | undefined;
  readonly signature?: Readonly<Record<string, string>> | undefined;
  readonly allowRemote?: boolean | undefined;
}

/** Where posts go, and how they are signed. */
export interface Target {
  readonly url: string;
  /** Of the relay of the settings. */
  readonly tls?: ListenTls | undefined;
  readonly signature: SignatureSettings;
  /** The newest first. */
  readonly secrets: readonly [string, ...string[]];
  /** The source of the settings, when it is known. */
  readonly source: { readonly account: string; readonly kind: SourceSettings["kind"] } | null;
  /** False where what answers need not speak as a relay does: another URL, or the downstream behind a proxying source. */
  readonly isRelay: boolean;
}

/** Throws {@link CommandFailed} for what cannot be a target; wrong usage ends in `command.error`. */
export function findTarget(command: Command, options: TargetOptions, kind: SourceSettings["kind"], io: Io): Target {
  const { secretEnv, url } = options;
  if (url === undefined && secretEnv !== undefined)
    command.error("error: --secret-env is for --url; the relay's secrets are in the settings");
  if (secretEnv === undefined && (options.service !== undefined || options.signature !== undefined)) {
    command.error("error: --service and --signature go with --secret-env; otherwise the settings say how to sign");
  }
  const target =
    url !== undefined && secretEnv !== undefined
      ? bareTarget(command, options, url, secretEnv, io)
      : ofSettings(command, options, kind, io);
  if (options.allowRemote !== true && !isLoopbackHost(target.url)) {
    throw new CommandFailed(`${new URL(target.url).host} is not this machine: sample events would go out to it; --allow-remote lets them`);
  }
  return target;
}

function bareTarget(command: Command, options: TargetOptions, url: string, names: readonly string[], io: Io): Target {
  if (options.source !== undefined) command.error("error: --source and --secret-env exclude each other");
  const secrets = names.map((name) => {
    const text = io.env[name];
    if (text === undefined || text === "") command.error(`error: the environment variable ${name} is not set`);
    return text;
  }) as [string, ...string[]];
  const parsed = signatureSettingsSchema.safeParse({ ...usualHeader(options), ...options.signature });
  if (!parsed.success)
    command.error(`error: --signature: ${parsed.error.issues.map(({ path, message }) => `${path.join(".")} ${message}`).join("; ")}`);
  return { url, signature: parsed.data, secrets, source: null, isRelay: false };
}

/** The default header is `x-acme-signature`, as in the sandbox. */
function usualHeader({ service, signature }: TargetOptions): SignatureSettings {
  if (service !== undefined) return { service };
  const given = (signature ?? {}) as SignatureSettings;
  return findSchemeFaults(given).some(({ key }) => key === "header") ? { service: "acme" } : {};
}

function ofSettings(command: Command, options: TargetOptions, kind: SourceSettings["kind"], io: Io): Target {
  const { settings } = readForLooking(options, io, ["accounts", "sources"]);
  const [name, source] = pickSource(settings, options, kind);
  const { secrets, ...signature } = source.signature;
  const own = options.url === undefined ? ownAddress(readPart("server", options, io)) : null;
  if (options.url === undefined && own === null) {
    command.error("error: server.port is 0 in the settings, so the relay's address is not known; give --url");
  }
  return {
    url: options.url ?? `${own?.url}/webhooks/${name}`,
    tls: own?.tls,
    signature,
    secrets: revealed(secrets),
    source: { account: source.account, kind: source.kind },
    isRelay: options.url === undefined && !(source.kind === "automation-request" && source.mode === "proxy"),
  };
}

/** Those that this command can read; one is enough to sign. */
function revealed(secrets: readonly Secret[]): [string, ...string[]] {
  const [first, ...others] = secrets.filter((secret) => !(secret instanceof MissingSecret));
  if (first !== undefined) return [first.reveal(), ...others.map((secret) => secret.reveal())];
  const why = secrets.flatMap((secret) => (secret instanceof MissingSecret ? [secret.why] : [])).join("; ");
  throw new CommandFailed(
    `this command cannot read the source's secret: ${why}. Run it with the relay's user and variables, or use --url with --secret-env`,
  );
}

function pickSource({ sources }: Settings, { config, source }: TargetOptions, kind: SourceSettings["kind"]): [string, SourceSettings] {
  if (source !== undefined) {
    const found = sources[source];
    if (found === undefined) throw new CommandFailed(`${config}: ${unknownName("source", source, Object.keys(sources))}`);
    return [source, found];
  }
  const [first, ...others] = Object.entries(sources).filter(([, each]) => each.kind === kind);
  if (first === undefined) throw new CommandFailed(`${config} has no source of the kind ${kind}`);
  if (others.length > 0) throw new CommandFailed(`say which with --source: ${[first, ...others].map(([name]) => name).join(", ")}`);
  return first;
}

/** `50/s`, `300/m`; a number alone is per second. Posts per second. */
export function rate(text: string): number {
  const parsed = rateSchema.safeParse(/^[\d.]+$/.test(text) ? `${text}/s` : text);
  if (!parsed.success) throw new InvalidArgumentError("It must be a rate, such as 50/s or 300/m.");
  return parsed.data;
}

/** `algorithm=sha1`: the name, one of those of the settings, and its value. */
export function signature(text: string): [string, string] {
  const at = text.indexOf("=");
  const [key, value] = [text.slice(0, at), text.slice(at + 1)];
  const parsed = signatureSettingsSchema.safeParse({ service: "acme", [key]: value });
  const fault = parsed.error?.issues.find(({ code, path }) => code === "unrecognized_keys" || (path[0] === key && code !== "custom"));
  if (at < 1 || fault !== undefined)
    throw new InvalidArgumentError("It must be key=value as under signature in the settings, such as encoding=base64.");
  return [key, value];
}
