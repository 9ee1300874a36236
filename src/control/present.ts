import type { AttemptView, DeliveryView, EventDetail, EventView } from "./port.ts";

/** Unix ms as ISO 8601. */
export function iso(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}

/** An event as it leaves the API. */
export function presentEvent<T extends EventView>(view: T) {
  return { ...view, receivedAt: iso(view.receivedAt), createdAt: iso(view.createdAt), parkedUntil: iso(view.parkedUntil) };
}

/** With the bytes received as base64, and as text when they are UTF-8. */
export function presentEventDetail<T extends EventDetail>(view: T) {
  const { body, verdicts, hydration, ...rest } = view;
  return {
    ...presentEvent(rest as unknown as EventView),
    body: body.toString("base64"),
    text: presentBytes(body),
    hydration: hydration === null ? null : { ...hydration, settledAt: iso(hydration.settledAt) },
    routes: verdicts.map(([route, verdict, reason]) => ({ route, verdict, ...(reason === undefined ? {} : { reason }) })),
  };
}

export function presentDelivery<T extends DeliveryView>(view: T) {
  return { ...view, nextAt: iso(view.nextAt), settledAt: iso(view.settledAt) };
}

export function presentAttempt(view: AttemptView) {
  return { ...view, at: iso(view.at), response: view.response === null ? null : view.response.toString("utf8") };
}

function presentBytes(bytes: Buffer): string | null {
  const text = bytes.toString("utf8");
  return Buffer.from(text, "utf8").equals(bytes) ? text : null;
}
