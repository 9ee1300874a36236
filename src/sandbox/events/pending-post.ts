import type { DeliveryRecord, EventRecord } from "../world/records.ts";
import type { World } from "../world/world.ts";
import { type DeliveryFaults, noFaults } from "./delivery-faults.ts";

/** A delivery that has not ended. The body is not here: it stays in the event's record. */
export interface PendingPost {
  readonly delivery: DeliveryRecord;
  /** Events of one message, or of one run, keep their order. Null: of none. */
  readonly line: string | null;
  readonly faults: DeliveryFaults;
  /** A post of it is in flight. */
  isPosting: boolean;
}

export function pendingPostOf(delivery: DeliveryRecord, event: EventRecord | undefined, faults: DeliveryFaults = noFaults): PendingPost {
  return { delivery, line: event?.wamid ?? event?.runId ?? null, faults, isPosting: false };
}

/** Changes the record of a delivery. One that the world forgot meanwhile is not brought back. */
export function note(world: World, { delivery }: PendingPost, change: Partial<DeliveryRecord>): void {
  Object.assign(delivery, change);
  if (world.deliveries.get(delivery.id) !== undefined) world.deliveries.put(delivery);
}
