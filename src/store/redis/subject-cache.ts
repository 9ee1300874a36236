import type { SubjectName } from "./keys.ts";

/**
 * Rows of subjects as this process last saw them, so that most events need one round trip: what is remembered is only
 * a guess that the script holds to the row's version, and gives back the row when it is wrong.
 */
export interface SubjectCache {
  /** The stored text, `""` for none; when nothing is remembered, none is the guess. */
  guess(name: SubjectName): string;
  remember(name: SubjectName, row: string): void;
}

export function createSubjectCache(most = 20_000): SubjectCache {
  const rows = new Map<SubjectName, string>();
  return {
    guess: (name) => rows.get(name) ?? "",
    remember(name, row) {
      rows.delete(name);
      rows.set(name, row);
      if (rows.size <= most) return;
      const [oldest] = rows.keys();
      if (oldest !== undefined) rows.delete(oldest);
    },
  };
}
