import type { SharedAnswer, SharedStep } from "../../model/shared-caps.ts";
import { type AccountState, emptyAccountState, shifted } from "./account.ts";

/** The account state of one process, or of all that share it. */
export interface Learned {
  /** As this process knows it now; do not modify. */
  view(): AccountState;
  /**
   * Applies `what` in this process at once and returns its result. `newest`: the number of the call dispatched last. When
   * another process was faster, `what` runs again on its state, so it must be pure. `settled` receives the result that was
   * stored; null: unknown whether it was.
   */
  change<T>(what: (state: AccountState, newest: number) => T, settled?: (given: T | null) => void): T;
}

/** The state of a process that is alone. */
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
  /** What the next step sends about the state. */
  toSend(): Pick<SharedStep, "version" | "next">;
  /** False: the changes were not stored, because another process had changed the state. Send them again. */
  receive(answer: SharedAnswer, now: number): boolean;
  /** The step failed: the changes may or may not be stored. */
  failed(): void;
  /** Whether changes are not stored yet. */
  hasNews(): boolean;
}

interface Change {
  apply(state: AccountState, newest: number): void;
  /** A caller waits for whether it was stored. */
  readonly isAwaited: boolean;
  settle(isStored: boolean): void;
}

/**
 * The state that an account's processes share: as stored last, plus the changes of this process that are not stored yet. A
 * change is stored only on the state it was made on; if another process was faster, it is applied again on the new state.
 * Times are steady ms of this process, and of the shared clock in transit. `news`: called when there is a change to store.
 */
export function createSharedLearned(plan: string, news: () => void): SharedLearned {
  let base = emptyAccountState(plan);
  let view = structuredClone(base);
  let changes: Change[] = [];
  let version = 0;
  let newest = 0;
  /** Shared time minus local time; null: not known yet. */
  let offset: number | null = null;
  /** The state in transit, with the changes that it includes. */
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
    toSend() {
      if (changes.length === 0 || offset === null) return { version, next: null };
      const state = structuredClone(base);
      for (const change of changes) change.apply(state, newest);
      draft = { state, changes };
      return { version, next: { state: JSON.stringify(shifted(state, offset)), newest } };
    },
    receive(answer, now) {
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
