import { compileGlobs } from "./glob.ts";
import { suggestion } from "./nearest.ts";
import { eventKinds, statusWords } from "./statuses.ts";

/** Which known status was probably meant; null for a known one. */
export function statusHint(word: string): string | null {
  return statusWords.includes(word) ? null : suggestion(word, statusWords);
}

/** Which known kind was probably meant; null for a pattern that a known kind fits. */
export function kindHint(pattern: string): string | null {
  const fits = compileGlobs([pattern]);
  if (eventKinds.some((kind) => fits(kind))) return null;
  const families = [...new Set(eventKinds.map((kind) => kind.replace(/\..*/, ".*")))];
  return suggestion(pattern, pattern.includes("*") ? families : eventKinds);
}
