import type { RoutedEvent } from "../../../src/model/states.ts";
import type { Tracking } from "../../../src/model/tracking.ts";
import { type RoutingSettings, routingSchema } from "../../../src/route/settings.ts";

/** A `message.status` event, but for what is given. */
export function anEvent(parts: Partial<RoutedEvent> = {}): RoutedEvent {
  const usual = {
    event: "message.status",
    account: "main",
    source: "main",
    status: "failed",
    errorCode: "131026",
    data: {},
    truncated: false,
  };
  return { ...usual, ...parts };
}

/** A registered message that the event moved, but for what is given. */
export function aTracking(parts: Partial<Tracking> = {}): Tracking {
  return {
    subject: "message",
    tracked: true,
    id: null,
    reference: "order-7",
    metadata: { team: "sales" },
    previousStatus: "sent",
    status: "failed",
    errorCode: "131026",
    transition: { from: "sent", to: "failed" },
    ...parts,
  };
}

/** What tracking knows of a message nobody registered. */
export function anUnknown(parts: Partial<Tracking> = {}): Tracking {
  return aTracking({ tracked: false, reference: null, metadata: null, ...parts });
}

/** What tracking says of an event that is about neither a message nor a run. */
export const noSubject: Tracking = anUnknown({
  subject: "none",
  previousStatus: null,
  status: null,
  errorCode: null,
  transition: null,
});

/** A route as the settings file would give it. */
export function aRoute(
  parts: { name?: string; match?: unknown; emit?: string } = {},
): RoutingSettings {
  return routingSchema.parse({ name: "r", ...parts });
}
