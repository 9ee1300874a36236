import type { LastPass } from "../model/poll.ts";

/** A pass as the engines store it. The names are older than those of `LastPass`: stores hold rows with them. */
export interface StoredPass extends Omit<LastPass, "polled" | "postponed" | "unpollable"> {
  readonly asked: number;
  readonly leftForBudget: number;
  readonly unaskable: number;
}

export function storedPass({ polled, postponed, unpollable, ...rest }: LastPass): StoredPass {
  return { ...rest, asked: polled, leftForBudget: postponed, unaskable: unpollable };
}

export function readPass({ asked, leftForBudget, unaskable, ...rest }: StoredPass): LastPass {
  return { ...rest, polled: asked, postponed: leftForBudget, unpollable: unaskable };
}
