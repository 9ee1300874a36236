import type { Control } from "../control/port.ts";
import type { DueDelivery } from "../store/planned.ts";
import type { SqliteStore } from "../store/sqlite/sqlite-store.ts";

export interface ControlPortParts {
  readonly store: SqliteStore;
  readonly now: () => number;
  /** Deliveries that became due. */
  readonly offer: (due: readonly DueDelivery[]) => void;
  /** A destination was resumed. */
  readonly wake: (route: string) => void;
}

/** Deliveries replayed in one transaction. */
const replayStepRows = 500;

/** The control API's port over the store and the dispatcher. */
export function createControlPort({ store, now, offer, wake }: ControlPortParts): Control {
  const { read } = store;
  return {
    listEvents: (filter) => read.events.list(filter),
    findEvents(id) {
      const seqs = /^\d{1,15}$/.test(id) ? [Number(id), ...read.events.seqsOf(id)] : read.events.seqsOf(id);
      return seqs.map((seq) => read.events.get(seq)).filter((event) => event !== null);
    },
    listDeliveries: (filter) => read.deliveries.list(filter),
    deliveriesOf: (event) =>
      read.deliveries.list({ event, limit: 1000 }).map((delivery) => ({ ...delivery, tries: read.deliveries.attempts(delivery) })),
    async retry(id) {
      const delivery = read.deliveries.find(id);
      const retried = delivery === null ? null : await store.retry(delivery.event, delivery.route, now());
      if (delivery === null || retried === null) return null;
      if (retried.due !== null) offer([retried.due]);
      return { id, state: retried.state };
    },
    countReplay: (filter) => store.countReplay(filter),
    async replay(filter) {
      let replayed = 0;
      let cursor: { event: number; route: number } | null = { event: 0, route: 0 };
      while (cursor !== null) {
        const step: Awaited<ReturnType<typeof store.replayStep>> = await store.replayStep(filter, cursor, replayStepRows, now());
        replayed += step.replayed;
        offer(step.due);
        cursor = step.cursor;
      }
      return replayed;
    },
    async register(registrations) {
      const { created, due } = await store.register(registrations, now());
      offer(due);
      return { created };
    },
    async resume(route) {
      const resumed = await store.resume(route);
      wake(route);
      return resumed;
    },
    stats: () => read.stats(),
  };
}
