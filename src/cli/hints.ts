import { kindHint, statusHint } from "../model/known-words.ts";
import { unknownName } from "../model/nearest.ts";
import { CommandFailed, type Io } from "./io.ts";
import type { RelayOptions } from "./options.ts";

interface Given {
  /** Patterns. */
  readonly events?: readonly string[];
  readonly statuses?: readonly string[];
  readonly sources?: readonly string[];
  readonly accounts?: readonly string[];
  readonly routes?: readonly string[];
}

/**
 * Lines about words that are probably misspelled, for a list that found nothing. Never a fault: the service may add
 * statuses and kinds, and a store may have events of names that the settings had before.
 */
export async function hintLines(
  { events = [], statuses = [], sources = [], accounts = [], routes = [] }: Given,
  options: RelayOptions,
  io: Io,
): Promise<string[]> {
  const isNamed = [...sources, ...accounts, ...routes].length > 0;
  const names = isNamed && options.relay === undefined ? await settingsNames(options, io) : null;
  const words = (what: string, given: readonly string[], hintOf: (word: string) => string | null) =>
    given.flatMap((word) => {
      const hint = hintOf(word);
      return hint === null ? [] : [`unknown ${what} "${word}" (${hint})`];
    });
  const named = (what: string, given: readonly string[], known: readonly string[] | undefined) =>
    known === undefined ? [] : given.filter((name) => !known.includes(name)).map((name) => unknownName(what, name, known));
  return [
    ...words("event kind", events, kindHint),
    ...words("status", statuses, statusHint),
    ...named("source", sources, names?.sources),
    ...named("account", accounts, names?.accounts),
    ...named("route", routes, names?.routes),
  ].map((line) => `note: ${line}`);
}

/** Null: the settings have faults. */
async function settingsNames(options: RelayOptions, io: Io) {
  const { readForLooking } = await import("./settings-option.ts");
  try {
    const { sources, accounts, routes } = readForLooking(options, io).settings;
    const proxied = Object.entries(sources).flatMap(([name, source]) =>
      "mode" in source && source.mode === "proxy" ? [`proxy:${name}`] : [],
    );
    return { sources: Object.keys(sources), accounts: Object.keys(accounts), routes: [...routes.map(({ name }) => name), ...proxied] };
  } catch (error) {
    if (error instanceof CommandFailed) return null;
    throw error;
  }
}
