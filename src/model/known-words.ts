import { compileGlobs } from "./glob.ts";
import { suggestion } from "./nearest.ts";
import { eventKinds, statusWords } from "./statuses.ts";

export function statusHint(word: string): string | null {
  return statusWords.includes(word) ? null : suggestion(word, statusWords);
}

export function kindHint(pattern: string): string | null {
  const fits = compileGlobs([pattern]);
  if (eventKinds.some((kind) => fits(kind))) return null;
  const families = [...new Set(eventKinds.map((kind) => kind.replace(/\..*/, ".*")))];
  return suggestion(pattern, pattern.includes("*") ? families : eventKinds);
}
