import { type GiveUpReason, giveUpReasons, type HydrationState, hydrationStates } from "../../event/hydration.ts";

/** The numbers that stand for words in the file; the lists may grow at their ends and are never reordered. */
export const hydrationCode = codes(hydrationStates);
export const giveUpCode = codes(giveUpReasons);

export function hydrationState(code: number): HydrationState {
  return hydrationStates[code] ?? "given-up";
}

export function giveUpReason(code: number | null): GiveUpReason | null {
  return code === null ? null : (giveUpReasons[code] ?? null);
}

function codes<Word extends string>(words: readonly Word[]): Record<Word, number> {
  return Object.fromEntries(words.map((word, code) => [word, code])) as Record<Word, number>;
}
