import type { Clock } from "../model/clock.ts";
import type { PollNews, Sighting, SightingCounts, Store } from "../store/port.ts";

export interface SightingsParts {
  readonly store: Pick<Store, "read" | "noteSightings" | "sightings">;
  readonly clock: Clock;
  /** A status that asking told and no webhook did, within the grace. */
  readonly missed: (account: string) => void;
}

/** A webhook that comes this much later than the answer to a question is late and not missing. */
const graceMs = 120_000;
/** Statuses that wait for their webhook; beyond that the oldest are forgotten. */
const mostPending = 10_000;
/** Events of a message that are looked through for one. */
const mostEvents = 100;

type Sums = { -readonly [name in keyof SightingCounts]: SightingCounts[name] } & { polls?: PollNews };

/**
 * What this process sees of webhooks, gathered for the one that watches for all: webhooks arrive at some processes,
 * others ask the service, and only together do they tell whether something is missing.
 */
export function createSightings({ store, clock, missed }: SightingsParts) {
  const { now } = clock;
  let sums = new Map<string, Sums>();
  /** Learned by asking here, in that order. */
  const pending: { readonly account: string; readonly wamid: string; readonly status: string; readonly at: number }[] = [];
  let place: string | null = null;

  function add(account: string, { polls, ...counts }: Partial<SightingCounts> & { readonly polls?: PollNews | undefined }): void {
    let sum = sums.get(account);
    if (sum === undefined) {
      sum = { events: 0, truncated: 0, refused: 0, registered: 0, missed: 0 };
      sums.set(account, sum);
    }
    sum.events += counts.events ?? 0;
    sum.truncated += counts.truncated ?? 0;
    sum.refused += counts.refused ?? 0;
    sum.registered += counts.registered ?? 0;
    sum.missed += counts.missed ?? 0;
    if (polls !== undefined) sum.polls = polls;
  }

  /** Whether a webhook told a status, at whichever process it arrived. */
  async function isTold({ account, wamid, status }: (typeof pending)[number]): Promise<boolean> {
    const seqs = await store.read.stories.eventsOf("message", account, wamid, 0, mostEvents);
    const events = await Promise.all(seqs.map((seq) => store.read.events.get(seq)));
    return events.some((event) => event !== null && event.origin === "webhook" && event.status === status);
  }

  async function judgePending(): Promise<void> {
    for (let first = pending[0]; first !== undefined && now() - first.at >= graceMs; first = pending[0]) {
      const wasTold = await isTold(first);
      pending.shift();
      if (wasTold) continue;
      add(first.account, { missed: 1 });
      missed(first.account);
    }
  }

  return {
    add,
    learned(account: string, wamid: string, status: string): void {
      pending.push({ account, wamid, status, at: now() });
      if (pending.length > mostPending) pending.shift();
    },
    /** Hands over what was gathered; what cannot be handed over now is with the next. */
    async flush(): Promise<void> {
      await judgePending();
      if (sums.size === 0) return;
      const gathered = sums;
      sums = new Map();
      try {
        await store.noteSightings([...gathered].map(([account, counts]) => ({ account, at: now(), ...counts })));
      } catch (error) {
        for (const [account, counts] of gathered) {
          const newer = sums.get(account)?.polls;
          add(account, { ...counts, polls: newer === undefined ? counts.polls : newer });
        }
        throw error;
      }
    },
    /** Those of all processes that were not read here before; at first from the time `from` on. */
    async read(from: number): Promise<readonly Sighting[]> {
      const read = await store.sightings(place, from);
      place = read.place;
      return read.sightings;
    },
  };
}
