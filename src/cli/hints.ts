import { metaItemKinds, metaKinds } from "../model/formats/meta-items.ts";
import { kindHint, statusHint, unknownName } from "../model/nearest.ts";
import { eventKinds } from "../model/statuses.ts";
import { CommandFailed, type Io } from "./io.ts";
import type { RelayOptions } from "./options.ts";

/** Filters as given, each perhaps several words with commas between. Kinds may be patterns. */
export type Given = {
  readonly [Filter in "event" | "status" | "source" | "account" | "route"]?: string | undefined;
};

/** Also Meta's: the relay of --relay may have a source of its format. */
const kinds = [
  ...new Set([...eventKinds, ...Object.values(metaItemKinds), ...Object.values(metaKinds)]),
];
/** Meta's fields that have no kind of their own. */
const isFieldKind = (pattern: string) => pattern.startsWith("meta.");

/**
 * Notes about words that are probably misspelled, for a list that found nothing. Never a fault: the
 * service may add statuses and kinds, and a store may have events of names that the settings had
 * before.
 */
export async function printHints(
  { event, status, ...given }: Given,
  options: RelayOptions,
  io: Io,
): Promise<void> {
  const note = (text: string): void => io.err(`note: ${text}`);
  const wordsIn = (text = "") => text.split(",").flatMap((word) => word.trim() || []);
  const hinted = (what: string, word: string, hint: string | null) =>
    hint !== null && note(`unknown ${what} "${word}" (${hint})`);
  for (const word of wordsIn(event))
    hinted("event kind", word, isFieldKind(word) ? null : kindHint(word, kinds));
  for (const word of wordsIn(status)) hinted("status", word, statusHint(word));
  if (options.relay !== undefined || Object.values(given).every((name) => name === undefined))
    return;
  const names = await settingsNames(options, io);
  for (const what of ["source", "account", "route"] as const)
    for (const name of wordsIn(given[what]))
      if (names?.[what].includes(name) === false) note(unknownName(what, name, names[what]));
}

async function settingsNames(options: RelayOptions, io: Io) {
  const { readForLooking } = await import("./settings-option.ts");
  try {
    const { sources, accounts, routes } = readForLooking(options, io).settings;
    const proxied = Object.entries(sources).flatMap(([name, source]) =>
      "mode" in source && source.mode === "proxy" ? [`proxy:${name}`] : [],
    );
    return {
      source: Object.keys(sources),
      account: Object.keys(accounts),
      route: [...routes.map(({ name }) => name), ...proxied],
    };
  } catch (error) {
    if (error instanceof CommandFailed) return null;
    throw error;
  }
}
