import type { Tally } from "../../audit/tally.ts";
import type { Db } from "../open.ts";
import { type DeliveryRow, deliveryColumn } from "./slice.ts";

/** What hangs on nothing: deliveries of events that are not there, attempts of deliveries that are not there. */
export function createStrays(db: Db, tally: Tally<number>) {
  const attempts = db.prepare<[number, number], { event: number; route: number; count: number }>(
    `SELECT event, route, count(*) AS count FROM attempts a WHERE event > ? AND event <= ?
       AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.event = a.event AND d.route = a.route) GROUP BY event, route`,
  );
  const deliveriesAfter = db.prepare<[number], { event: number; route: number }>(
    "SELECT event, route FROM deliveries WHERE event > ? LIMIT 1000",
  );

  function findAttempts(after: number, to: number): void {
    for (const { event, route, count } of attempts.all(after, to)) {
      tally.offence("attempt without delivery", event, route, `${count} written down for no delivery`, count);
    }
  }

  function delivery(event: number, route: number): void {
    tally.offence("delivery without event", event, route, "there is no such event");
  }

  return {
    /** The place of the first delivery that is not of an event before `seq`; those passed over belong to none. */
    skip(deliveries: readonly DeliveryRow[], from: number, seq: number): number {
      let place = from;
      for (; place < deliveries.length; place += 1) {
        const row = deliveries[place] as DeliveryRow;
        const event = row[deliveryColumn.event] as number;
        if (event >= seq) break;
        delivery(event, row[deliveryColumn.route] as number);
      }
      return place;
    },
    attempts: findAttempts,
    /** Of events with a greater number than any. */
    beyond(newest: number): void {
      for (const { event, route } of deliveriesAfter.all(newest)) delivery(event, route);
      findAttempts(newest, Number.MAX_SAFE_INTEGER);
    },
  };
}
