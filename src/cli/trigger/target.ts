import type { Command } from "commander";
import type { Settings, SourceSettings } from "../../config/schema.ts";
import type { FormatName } from "../../model/formats/formats.ts";
import { unknownName } from "../../model/nearest.ts";
import { isLoopbackHost } from "../../net/addresses.ts";
import { CommandFailed, type Io } from "../io.ts";
import { ownAddress } from "../reach-relay.ts";
import { readableSecrets, readForLooking, readPart } from "../settings-option.ts";
import type { TriggerOptions } from "./options.ts";

/** What a source takes: automations' requests, or events in a format. */
type SourceKind = "automation-request" | FormatName;

export type Target = ReturnType<typeof findTarget>;

/**
 * Where posts go, how they are signed, and how fast. Throws {@link CommandFailed} for what cannot
 * be a target.
 */
export function findTarget(command: Command, options: TriggerOptions, kind: SourceKind, io: Io) {
  const { url: given } = options;
  const { settings } = readForLooking(options, io);
  const [name, source] = pickSource(settings, options, kind);
  const isMeta = source.kind === "events" && source.format === "meta";
  if (
    source.signature === undefined ||
    (isMeta && (source.header ?? source.pathSecrets) !== undefined)
  ) {
    throw new CommandFailed(
      `the source "${name}" verifies more or less than a signature: send its requests with curl`,
    );
  }
  const { secrets, ...signature } = source.signature;
  const own = given === undefined ? ownAddress(readPart("server", options, io)) : null;
  if (given === undefined && own === null)
    command.error(
      "error: server.port is 0 in the settings, so the relay's address is not known; give --url",
    );
  const url = given ?? `${own?.url}/webhooks/${name}`;
  if (options.allowRemote !== true && !isLoopbackHost(url))
    throw new CommandFailed(
      `${new URL(url).host} is not this machine: sample events would go out to it; --allow-remote lets them`,
    );
  return {
    url,
    /** Of the relay of the settings. */
    tls: own?.tls,
    signature,
    /** The newest. */
    secret: readableSecrets(secrets)[0].reveal(),
    source: name,
    kind: kindOf(source),
    /** The first of Meta's numbers that the source maps to accounts. */
    phoneNumberId: isMeta ? Object.keys(source.accounts ?? {})[0] : undefined,
    rate: options.rate,
    /**
     * False where what answers need not speak as a relay does: another URL, or the downstream
     * behind a proxying source.
     */
    isRelay:
      given === undefined && !(source.kind === "automation-request" && source.mode === "proxy"),
  };
}

const samples: Readonly<Record<FormatName, string>> = {
  standard: "message.status",
  meta: "meta.status",
};

const kindOf = (source: SourceSettings): SourceKind =>
  source.kind === "events" ? source.format : source.kind;

function pickSource(
  { sources }: Settings,
  { config, source }: TriggerOptions,
  kind: SourceKind,
): [string, SourceSettings] {
  if (source !== undefined) {
    const found = sources[source];
    if (found === undefined)
      throw new CommandFailed(`${config}: ${unknownName("source", source, Object.keys(sources))}`);
    return [source, found];
  }
  const [first, ...others] = Object.entries(sources).filter(([, each]) => kindOf(each) === kind);
  if (first === undefined) {
    const [instead = ""] = Object.entries(sources).flatMap(([name, each]) =>
      each.kind === "events"
        ? [`; its source ${name} takes "wamid-relay trigger ${samples[each.format]}"`]
        : [],
    );
    throw new CommandFailed(
      `${config} has no source ${kind === "automation-request" ? "of the kind" : "with format:"} ${kind}${instead}`,
    );
  }
  if (others.length > 0)
    throw new CommandFailed(
      `say which with --source: ${[first, ...others].map(([name]) => name).join(", ")}`,
    );
  return first;
}
