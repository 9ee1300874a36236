import type { Clock } from "../model/clock.ts";
import type { Store } from "../store/create-store.ts";
import type { AccountObservation, ObservationCounts, PollNews } from "../store/port.ts";

export interface ObservationsParts {
  readonly store: Pick<Store, "read" | "noteObservations" | "observations">;
  readonly clock: Clock;
  /** A poll found a status, and its webhook did not arrive within the grace period. */
  readonly missed: (account: string) => void;
}

/** A webhook that arrives this long after the answer to a poll is late, not missing. */
const graceMs = 120_000;
/** Polled statuses that wait for their webhook; beyond that the oldest are dropped. */
const mostPending = 10_000;
/** Events of a message that are searched for one. */
const mostEvents = 100;

type Sums = { -readonly [name in keyof ObservationCounts]: ObservationCounts[name] } & { polls?: PollNews };

/**
 * What this process observed, collected for the leader: webhooks arrive at some processes and others poll the service, and
 * only together do they show whether something is missing.
 */
export function createObservations({ store, clock, missed }: ObservationsParts) {
  const { now } = clock;
  let sums = new Map<string, Sums>();
  /** Statuses that polls found, in order of time. */
  const pending: { readonly account: string; readonly wamid: string; readonly status: string; readonly at: number }[] = [];
  let place: string | null = null;

  function add(account: string, { polls, ...counts }: Partial<Sums>): void {
    const sum = sums.get(account) ?? { events: 0, truncated: 0, refused: 0, registered: 0, missed: 0 };
    sums.set(account, sum);
    for (const [name, count] of Object.entries(counts) as [keyof ObservationCounts, number][]) sum[name] += count;
    if (polls !== undefined) sum.polls = polls;
  }

  /** Whether a webhook brought the status to any process. */
  async function hasArrived({ account, wamid, status }: (typeof pending)[number]): Promise<boolean> {
    const seqs = await store.read.stories.eventsOf("message", account, wamid, 0, mostEvents);
    const events = await Promise.all(seqs.map((seq) => store.read.events.get(seq)));
    return events.some((event) => event !== null && event.origin === "webhook" && event.status === status);
  }

  async function countMissed(): Promise<void> {
    for (let first = pending[0]; first !== undefined && now() - first.at >= graceMs; first = pending[0]) {
      const isLate = await hasArrived(first);
      pending.shift();
      if (isLate) continue;
      add(first.account, { missed: 1 });
      missed(first.account);
    }
  }

  return {
    add,
    polled(account: string, wamid: string, status: string): void {
      pending.push({ account, wamid, status, at: now() });
      if (pending.length > mostPending) pending.shift();
    },
    /** Stores what was collected; what cannot be stored now is kept for the next call. */
    async flush(): Promise<void> {
      await countMissed();
      if (sums.size === 0) return;
      const collected = sums;
      sums = new Map();
      try {
        await store.noteObservations([...collected].map(([account, counts]) => ({ account, at: now(), ...counts })));
      } catch (error) {
        const newer = sums;
        sums = collected;
        for (const [account, counts] of newer) add(account, counts);
        throw error;
      }
    },
    /** Those of all processes that this one has not read yet, at first from the time `from`. */
    async read(from: number): Promise<readonly AccountObservation[]> {
      const read = await store.observations(place, from);
      place = read.place;
      return read.observations;
    },
  };
}
