import { kindHint, statusHint } from "../model/known-words.ts";
import { unknownName } from "../model/nearest.ts";
import { printable } from "./output.ts";
import type { SettingsNames } from "./reach-relay.ts";

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
 * statuses and kinds, and a store may have events of names that the settings had before. `names` is null with `--relay`.
 */
export function hintLines(
  { events = [], statuses = [], sources = [], accounts = [], routes = [] }: Given,
  names: SettingsNames | null,
): string[] {
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
  ].map((line) => printable(`note: ${line}`));
}
