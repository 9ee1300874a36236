import type { FastifyRequest } from "fastify";
import { RelayError } from "../model/errors.ts";
import { isCanonicalUuid } from "../model/ids.ts";
import { maskText } from "../model/mask.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";

/*
 * A caller without the scope `pii` reads masks. A search must not undo them: such a caller finds
 * whole names only, and a limit makes it slow to try out whole phone numbers.
 */

/**
 * Guesses that a token has at once; then one more each time. Ten thousand numbers with a known
 * beginning take three weeks.
 */
const most = 20;
const renewedEveryMs = 180_000;

/**
 * Throws `too_many_guesses`; else call what it returns with whether something was found. Only
 * misses use up the limit.
 */
export type Guess = (token: string) => (isFound: boolean) => void;

export function createGuesses(
  now: () => number,
  guessed: (token: string, result: "found" | "missed" | "refused") => void,
): Guess {
  const renewedAt = new Map<string, number>();
  const longestMs = most * renewedEveryMs;
  return (token) => {
    for (const [name, at] of renewedAt) if (at <= now()) renewedAt.delete(name);
    // The minimum: the clock may have been set back.
    const usedMs = Math.min(longestMs, Math.max(0, (renewedAt.get(token) ?? 0) - now()));
    const waitMs = usedMs + renewedEveryMs - longestMs;
    if (waitMs > 0) {
      guessed(token, "refused");
      const message =
        "too many searches for phone numbers that found nothing; a token with the scope pii has no limit";
      throw new RelayError("too_many_guesses", message, undefined, { retryAfterMs: waitMs });
    }
    renewedAt.set(token, now() + usedMs + renewedEveryMs);
    return (isFound) => {
      guessed(token, isFound ? "found" : "missed");
      if (isFound) renewedAt.set(token, (renewedAt.get(token) ?? 0) - renewedEveryMs);
    };
  };
}

/**
 * Whether the mask of an answer would hide a phone number in this name. A wamid has a random part
 * that nobody guesses.
 */
function hidesPhone(name: string): boolean {
  return !name.startsWith("wamid.") && !isCanonicalUuid(name) && maskText(name) !== name;
}

export async function lookUp<T>(
  { caller }: FastifyRequest,
  {
    phone,
    names = [],
  }: { readonly phone?: string | undefined; readonly names?: readonly (string | undefined)[] },
  find: (wholeOnly: boolean) => MaybePromise<T>,
  isFound: (found: T) => boolean,
): Promise<T> {
  // Without a caller, a command reads the store itself: the operator of this machine.
  if (caller === null || caller.token.scopes.includes("pii")) return find(false);
  if (phone === undefined && !names.some((name) => name !== undefined && hidesPhone(name)))
    return find(true);
  const settle = caller.guess();
  let found = false;
  try {
    const answer = await find(true);
    found = isFound(answer);
    return answer;
  } finally {
    settle(found);
  }
}
