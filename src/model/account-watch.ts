export interface Counts {
  /** Webhooks. */
  readonly events: number;
  /** Truncated events about a message: each stands for a status that only a poll could find. */
  readonly truncated: number;
  /** Bad signatures. */
  readonly refused: number;
  /** Polled statuses whose webhook did not arrive within the grace period. */
  readonly missed: number;
}

/** What one process saw of an account for some seconds. */
export interface AccountNote extends Counts {
  readonly account: string;
  readonly since: number;
  readonly registered: number;
  /** Why all polls fail; null: one found a message. */
  readonly polls?: string | null;
  readonly isKeyRefused?: boolean;
}

/** What all processes saw of an account. */
export interface AccountWatch {
  /** Parts of the window, in order. */
  readonly slots: readonly (Counts & { readonly from: number })[];
  readonly lastEventAt: number;
  /** Messages registered since the last event, and when the first was. */
  readonly registered: { readonly count: number; readonly first: number | null };
  readonly polls: { readonly since: number; readonly text: string } | null;
  readonly keyRefusedAt: number | null;
}

const unwatched: AccountWatch = {
  slots: [],
  lastEventAt: 0,
  registered: { count: 0, first: null },
  polls: null,
  keyRefusedAt: null,
};
const slotsOfWindow = 15;

/** Adds what was seen until `at`. */
export function withNote(
  watch: AccountWatch | null,
  note: AccountNote,
  at: number,
  windowMs: number,
): AccountWatch {
  const { slots, lastEventAt, registered, polls, keyRefusedAt } = watch ?? unwatched;
  const { events, polls: fault, isKeyRefused } = note;
  const slotMs = windowMs / slotsOfWindow;
  const from = Math.floor(at / slotMs) * slotMs;
  const current = sumOf([note, ...slots.filter((slot) => slot.from === from)]);
  const first = registered.first ?? note.since;
  return {
    slots: [
      ...slots.filter((slot) => slot.from !== from && slot.from > at - windowMs),
      { from, ...current },
    ],
    lastEventAt: events > 0 ? at : lastEventAt,
    registered:
      events > 0
        ? unwatched.registered
        : note.registered > 0
          ? { count: registered.count + note.registered, first }
          : registered,
    polls:
      fault === undefined ? polls : fault === null ? null : (polls ?? { since: at, text: fault }),
    keyRefusedAt:
      isKeyRefused === undefined ? keyRefusedAt : isKeyRefused ? (keyRefusedAt ?? at) : null,
  };
}

export const countsOf = ({ slots }: AccountWatch, now: number, windowMs: number): Counts =>
  sumOf(slots.filter(({ from }) => from > now - windowMs));

function sumOf(counts: readonly Counts[]): Counts {
  const sums = { events: 0, truncated: 0, refused: 0, missed: 0 };
  for (const each of counts)
    for (const name of Object.keys(sums) as (keyof Counts)[]) sums[name] += each[name];
  return sums;
}
