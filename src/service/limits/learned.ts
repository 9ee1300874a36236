import { type AccountState, emptyAccountState, shifted } from "./account.ts";
import type { SharedAnswer, SharedAsk } from "./shared-port.ts";

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

interface SharedLearned extends Learned {
  newest(): number;
  /** What a step asks and tells about the state. */
  told(): Pick<SharedAsk, "version" | "next">;
  /** False: what was told was not stored, because others had changed the state; it is to be told again. */
  heard(answer: SharedAnswer, now: number): boolean;
  /** The step failed, and what it told may be stored or not. */
  failed(): void;
  /** Something is known here that others may not know. */
  hasNews(): boolean;
}

interface Change {
  apply(state: AccountState, newest: number): void;
  /** Somebody waits to hear whether it was stored. */
  readonly isAwaited: boolean;
  settle(isStored: boolean): void;
}

/**
 * What all processes of an account know: the state as it was stored last, and on top of it the changes made here that are
 * not stored yet. A change is stored only on the state it was made on; where others were faster it is made again on theirs.
 * Times are steady ms of this process, and on the way those of the shared clock. `news`: there is something to tell.
 */
export function createSharedLearned(plan: string, news: () => void): SharedLearned {
  let base = emptyAccountState(plan);
  let view = structuredClone(base);
  let changes: Change[] = [];
  let version = 0;
  let newest = 0;
  /** Shared time less ours; null: not known yet. */
  let offset: number | null = null;
  /** On its way to be stored, with the changes that are in it. */
  let draft: { readonly state: AccountState; readonly changes: readonly Change[] } | null = null;

  function look(): void {
    view = structuredClone(base);
    for (const change of changes) change.apply(view, newest);
  }

  return {
    view: () => view,
    change(what, settled) {
      const before = JSON.stringify(view);
      const first = what(view, newest);
      if (settled === undefined && JSON.stringify(view) === before) return first;
      let last = first;
      changes.push({
        apply(state, at) {
          last = what(state, at);
        },
        isAwaited: settled !== undefined,
        settle: (isStored) => settled?.(isStored ? last : null),
      });
      news();
      return first;
    },
    newest: () => newest,
    told() {
      if (changes.length === 0 || offset === null) return { version, next: null };
      const state = structuredClone(base);
      for (const change of changes) change.apply(state, newest);
      draft = { state, changes };
      return { version, next: { state: JSON.stringify(shifted(state, offset)), newest } };
    },
    heard(answer, now) {
      const stored = answer.isStored ? draft : null;
      draft = null;
      version = answer.version;
      newest = answer.newest;
      offset = answer.now - now;
      if (stored !== null) base = stored.state;
      // It was written by a process of this version.
      else if (answer.state !== null) base = shifted(JSON.parse(answer.state) as AccountState, -offset);
      changes = changes.filter((change) => stored?.changes.includes(change) !== true);
      look();
      for (const change of stored?.changes ?? []) change.settle(true);
      return changes.length === 0;
    },
    failed() {
      draft = null;
      const awaited = changes.filter(({ isAwaited }) => isAwaited);
      changes = changes.filter(({ isAwaited }) => !isAwaited);
      look();
      for (const change of awaited) change.settle(false);
    },
    hasNews: () => changes.length > 0,
  };
}
