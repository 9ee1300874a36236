import { existsSync } from "node:fs";
import { type Command, InvalidArgumentError, Option } from "commander";
import { nearest } from "../model/nearest.ts";
import { durationUnits, inUnits, mostMs, mostRate, perSecond } from "../model/unit-text.ts";
import { emptyText } from "./io.ts";
import {
  type Always,
  type Given,
  type OptionsOf,
  optionOf,
  type Typed,
  type TypedOption,
  typed,
} from "./typed.ts";

export function matching(form: RegExp, fault: string) {
  return (text: string): string => {
    if (!form.test(text)) throw new InvalidArgumentError(fault);
    return text;
  };
}

/**
 * A non-empty argument: an empty one comes from an unset variable of a script, and would name no
 * resource.
 */
export const givenArgument = matching(/./s, emptyText);

/**
 * Files in the working directory that are the default of `--config`: the first that exists, else
 * the last.
 */
const settingsPaths = ["relay.yaml", "config/relay.yaml"] as const;

export function defaultSettingsPath(): string {
  return settingsPaths.find((path) => existsSync(path)) ?? settingsPaths[1];
}

export const ownFixtures = "fixtures";

export function withConfigOption(command: Command) {
  return typed(command)
    .option("-c, --config <path>", "settings file", defaultSettingsPath())
    .option(
      "--env-file <path>",
      "file with variables for the settings (default: .env beside the settings file, if it exists)",
    );
}
export type SettingsOptions = OptionsOf<typeof withConfigOption>;

export function withRelayOptions(command: Command) {
  return withConfigOption(command)
    .option("--relay <url>", "use the relay at this URL instead of the one of the settings file")
    .option(
      "--token-env <name>",
      "with --relay: the environment variable that holds the token",
      "RELAY_TOKEN",
    );
}
export type RelayOptions = OptionsOf<typeof withRelayOptions> & {
  readonly showPii?: boolean | undefined;
};

export function withTimeOptions<Options, Arguments extends unknown[]>(
  command: Typed<Options, Arguments>,
) {
  return command
    .option(
      "--from <time>",
      "received from this time on, such as 2026-11-20T08:00:00Z or 2026-11-20 (UTC)",
      time,
    )
    .option("--to <time>", "received before this time", time)
    .addOption(
      optionOf(
        "--since <duration>",
        "received within this time until now, such as 30m, 2h, 7d",
        ago,
      ).conflicts("from"),
    );
}

export type TimeOptions = OptionsOf<typeof withTimeOptions<unknown, []>>;

/** Ends in wrong usage for a reversed range, in which nothing would be found or replayed. */
export function timeFilter(command: Command, { since, from = since, to }: TimeOptions) {
  if (from !== undefined && to !== undefined && from >= to)
    command.error("error: --to must be after --from or --since");
  return { from, to };
}

export function choice<
  Flags extends string,
  Word extends string,
  Fallback extends NoInfer<Word> | undefined = undefined,
>(
  flags: Flags,
  description: string,
  words: readonly Word[],
  fallback?: Fallback,
): TypedOption<Fallback extends undefined ? Given<Flags, Word> : Always<Flags, Word>> {
  return new Option(flags, description).default(fallback).choices(words).argParser(wordOf(words));
}

export function wordOf<Word extends string>(words: readonly Word[]) {
  return (text: string): Word => {
    const word = words.find((each) => each === text);
    if (word !== undefined) return word;
    const candidate = nearest(text, words);
    const hint = candidate === undefined ? "" : ` Did you mean ${candidate}?`;
    throw new InvalidArgumentError(`Allowed choices are ${words.join(", ")}.${hint}`);
  };
}

const wholeNumber = matching(/^[1-9]\d{0,9}$/, "It must be a whole number from 1.");
export const count = (text: string): number => Number(wholeNumber(text));

/** A port, for options. `lowest` 0: the system picks one. */
export function portFrom(lowest: 0 | 1) {
  return (text: string): number => {
    const port = /^\d{1,5}$/.test(text) ? Number(text) : -1;
    if (port < lowest || port > 65_535)
      throw new InvalidArgumentError(
        `It must be a port from ${lowest} to 65535${lowest === 0 ? " (0: any free one)" : ""}.`,
      );
    return port;
  };
}

export function several(text: string, earlier: readonly string[] = []): string[] {
  return [...earlier, text];
}

export function pairs(
  text: string,
  earlier: Readonly<Record<string, string>> = {},
): Record<string, string> {
  const at = text.indexOf("=");
  if (at < 1) throw new InvalidArgumentError("It must be key=value.");
  return { ...earlier, [text.slice(0, at)]: text.slice(at + 1) };
}

/** For options: a date, or a time with its zone; gives ISO 8601, UTC. */
export function time(text: string): string {
  const withZone = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2}))?$/;
  return isoTime(
    text,
    withZone,
    "It must be a date (2026-11-20) or a time with its zone (2026-11-20T08:00:00Z).",
  );
}

export function isoTime(text: string, pattern: RegExp, fault: string): string {
  const day = text.slice(0, 10);
  // Date takes February 31 for March 3.
  const at =
    pattern.test(text) && new Date(day).toJSON()?.startsWith(day) === true ? new Date(text) : null;
  if (at === null || Number.isNaN(at.valueOf())) throw new InvalidArgumentError(fault);
  return at.toISOString();
}

/** For options: a duration before now; gives ISO 8601, UTC. */
function ago(text: string): string {
  const ms = inUnits(text, durationUnits);
  if (!(ms <= mostMs))
    throw new InvalidArgumentError("It must be a duration, such as 30m, 2h or 7d.");
  return new Date(Date.now() - ms).toISOString();
}

/** For options, per second: `50/s`, `300/m`; a number alone is per second. */
export function rate(text: string): number {
  const found = perSecond(/^[\d.]+$/.test(text) ? `${text}/s` : text);
  if (!(found > 0 && Number.parseFloat(text) <= mostRate))
    throw new InvalidArgumentError("It must be a rate, such as 50/s, 300/m or 1000/h.");
  return found;
}

/** The first of these options that was given, as `--flag`. */
export function givenFlag<Name extends string>(
  command: Command,
  options: Readonly<Partial<Record<Name, unknown>>>,
  names: readonly Name[],
): string | undefined {
  const given = names.find((name) => options[name] !== undefined);
  return command.options.find((option) => option.attributeName() === given)?.long;
}

interface Fault {
  /** Of a field or parameter, such as `metadata.team`. */
  readonly path: string;
  readonly message: string;
}

/** What an option gives under another name. */
const givenAs: Readonly<Record<string, readonly string[]>> = {
  from: ["from", "since", "day"],
  to: ["to", "day"],
  phoneNumberId: ["from"],
  states: ["state"],
  cursor: ["resume"],
  api: ["fail"],
  file: ["state"],
  phoneNumberIds: ["number"],
  "faults.meta.batch": ["batch"],
  webhooks: ["webhook"],
};

/**
 * Ends in wrong usage that names the options as they are typed. Returns when no option gave a
 * faulty value.
 */
export function refuseOptions(command: Command, faults: readonly Fault[]): void {
  const texts = faults.map(({ path, message }) => {
    const names = givenAs[path] ?? path.split(".").flatMap((part) => givenAs[part] ?? part);
    const possible = names.flatMap((name) =>
      command.options.filter((option) => option.attributeName() === name),
    );
    const option =
      possible.find((each) => command.getOptionValue(each.attributeName()) !== undefined) ??
      possible[0];
    return { isOption: option !== undefined, text: `${option?.long ?? path}: ${message}` };
  });
  if (texts.some(({ isOption }) => isOption))
    command.error(`error: ${texts.map(({ text }) => text).join("; ")}`);
}

/**
 * Of this machine without `http://`, as comparable tools take it. The host alone is no URL: it
 * could be a forgotten value.
 */
const schemeless = /^(?:localhost|127\.0\.0\.1|\[::1\]):\d/i;

export function webUrl(text: string): URL | null {
  const url = URL.parse(schemeless.test(text) ? `http://${text}` : text);
  return url !== null && /^https?:$/.test(url.protocol) ? url : null;
}

export function httpUrl(text: string): string {
  const url = webUrl(text);
  if (url === null) throw new InvalidArgumentError("It must be an http or https URL.");
  return schemeless.test(text) ? url.href : text;
}
