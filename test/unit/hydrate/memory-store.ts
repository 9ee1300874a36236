import type { HydrationStore } from "../../../src/hydrate/pass.ts";
import type { CoveredEvents, HydrationPass, TrackedMessage } from "../../../src/model/hydration.ts";

export interface WaitingEvent {
  readonly seq: number;
  readonly receivedAt: number;
}

export interface SettledEvent {
  readonly seq: number;
  readonly reason: string | null;
  readonly unknown: number;
}

/** A store of one account in memory, as far as passes use it. */
export function createMemoryStore(messages: TrackedMessage[], waiting: WaitingEvent[]) {
  const settled: SettledEvent[] = [];
  let calls = 0;

  const coveredBy = (through: number) => waiting.filter(({ seq }) => seq <= through);
  function covered({ through }: Pick<HydrationPass, "through">): CoveredEvents | null {
    const times = coveredBy(through).map(({ receivedAt }) => receivedAt);
    return times.length === 0
      ? null
      : { events: times.length, oldest: Math.min(...times), newest: Math.max(...times) };
  }
  function settle(
    events: readonly WaitingEvent[],
    reason: string | null,
    unknown: number,
  ): { events: number } {
    for (const event of events) {
      waiting.splice(waiting.indexOf(event), 1);
      settled.push({ seq: event.seq, reason, unknown });
    }
    return { events: events.length };
  }

  const store: HydrationStore = {
    covered,
    trackedMessages: (_, { withId, before, from, limit }) =>
      messages
        .filter(
          ({ messageId, registeredAt }) => (messageId !== null) === withId && registeredAt >= from,
        )
        .filter(
          ({ registeredAt, message }) =>
            registeredAt < before.registeredAt ||
            (registeredAt === before.registeredAt && message < before.message),
        )
        .toSorted((a, b) => b.registeredAt - a.registeredAt || b.message - a.message)
        .slice(0, limit),
    async noteReads(_, polled, read) {
      calls += polled;
      for (const { message, at } of read) {
        const index = messages.findIndex((each) => each.message === message);
        messages[index] = { ...(messages[index] as TrackedMessage), readAt: at };
      }
    },
    callsSince: () => calls,
    async settleCovered({ through }, { reason, unknown, receivedBy }, _, limit) {
      return settle(
        coveredBy(through)
          .filter(({ receivedAt }) => receivedAt <= receivedBy)
          .slice(0, limit),
        reason,
        unknown,
      );
    },
    async endPass() {},
  };
  function begin(startedAt: number): HydrationPass {
    const begun = {
      account: "main",
      through: waiting.at(-1)?.seq ?? 0,
      startedAt,
      polled: 0,
      source: "main",
      because: "event",
    };
    return { ...begun, covered: covered(begun) as CoveredEvents };
  }

  return { store, begin, settled, calls: () => calls };
}
