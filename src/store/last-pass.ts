import type { LastPass } from "../model/poll.ts";

/** A pass as the engines store it. The names are older than those of `LastPass`: stores hold rows with them. */
export interface StoredPass extends Omit<LastPass, "polled" | "unpollable"> {
  readonly asked: number;
  readonly unaskable: number;
}

export const storedPass = ({ polled, unpollable, ...rest }: LastPass): StoredPass => ({ ...rest, asked: polled, unaskable: unpollable });

export const readPass = ({ asked, unaskable, ...rest }: StoredPass): LastPass => ({ ...rest, polled: asked, unpollable: unaskable });
