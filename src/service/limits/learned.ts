import { type AccountState, emptyAccountState } from "./account-state.ts";

/** What is known of the account: by one process, or by all that share it. */
export interface Learned {
  /** As known here and now; not to be changed. */
  view(): AccountState;
  /**
   * Changes it, here at once. Gives what `what` gave; `newest` is the number of the call let go last. Where others
   * learn of it, and change it too, `what` may be called again on what they made of it: so it looks at nothing that
   * changes, and `settled` hears what it gave when it was stored, null when nobody knows whether it was.
   */
  change<T>(what: (state: AccountState, newest: number) => T, settled?: (given: T | null) => void): T;
}

/** Known by this process only. */
export function createOwnLearned(plan: string, newest: () => number): Learned {
  const state = emptyAccountState(plan);
  return {
    view: () => state,
    change(what, settled) {
      const given = what(state, newest());
      settled?.(given);
      return given;
    },
  };
}
