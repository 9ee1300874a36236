import type { Reading } from "../control/reading.ts";
import type { Inspecting, StoreReading } from "../store/reading.ts";
import { createTrackedPort } from "./tracked-port.ts";
import { walkBack } from "./walk-back.ts";

/** Events are stored in the order received, but for clocks that were set; this much is allowed for them. */
const clockSlackMs = 3_600_000;

/** The looking half of the control API's port, over a store or a reader beside one. */
export function createReadingPort(read: StoreReading, inspecting: Pick<Inspecting, "stats">): Reading {
  return {
    ...createTrackedPort(read),
    async listEvents(filter) {
      const { limit, from } = filter;
      // The events of one message are few, and found by index.
      if (filter.wamid !== undefined) {
        const { events: data, unseen } = await read.events.list(filter);
        return { data, next: data.length < limit ? null : (data.at(-1)?.seq ?? null), unseen };
      }
      const { found, reached } = await walkBack({
        before: filter.before ?? null,
        limit,
        bounds: read.events.bounds,
        read: async (after, before, most) => (await read.events.list({ ...filter, after, before, limit: most })).events,
        isPast: async (after, before) => {
          const latest = from === undefined ? null : await read.events.latestReceived(after, before);
          return from !== undefined && latest !== null && latest < from - clockSlackMs;
        },
      });
      return { data: found, next: found.length >= limit ? (found.at(-1)?.seq ?? null) : reached, unseen: 0 };
    },
    async findEvents(id) {
      const bySeq = /^\d{1,15}$/.test(id) ? await read.events.get(Number(id)) : null;
      if (bySeq !== null) return [bySeq];
      const events = await Promise.all((await read.events.seqsOf(id)).map((seq) => read.events.get(seq)));
      return events.filter((event) => event !== null);
    },
    async listDeliveries({ before: place, ...filter }) {
      const [event, route] = (place ?? "").split(".").map(Number);
      const start = event === undefined || route === undefined || place === undefined ? null : { event, route };
      const { found, reached } = await walkBack({
        // The event the last page ended in may have more of them.
        before: start === null ? null : start.event + 1,
        limit: filter.limit,
        bounds: read.events.bounds,
        read: (after, before, limit) =>
          read.deliveries.list({
            ...filter,
            after,
            before: start !== null && start.event < before ? start : { event: before, route: 0 },
            limit,
          }),
      });
      const last = found.length >= filter.limit ? found.at(-1) : undefined;
      const next = last !== undefined ? await read.deliveries.placeOf(last) : reached === null ? null : { event: reached, route: 0 };
      return { data: found, next: next === null ? null : `${next.event}.${next.route}` };
    },
    async deliveriesOf(event) {
      const found = await read.deliveries.list({ event, limit: 1000 });
      return Promise.all(found.toReversed().map(async (delivery) => ({ ...delivery, tries: await read.deliveries.attempts(delivery) })));
    },
    stats: () => inspecting.stats(),
  };
}
