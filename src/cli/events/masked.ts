import type { ShownEvent, ShownEventDetail, ShownHydration } from "../control-views.ts";
import type { PrivateView } from "../private-view.ts";

export function maskedEvent(event: ShownEvent, view: PrivateView): ShownEvent {
  return event.subject === null ? event : { ...event, subject: { ...event.subject, key: view.subject(event.subject) } };
}

function maskedHydration(hydration: ShownHydration, view: PrivateView): ShownHydration {
  const found = hydration.found.map((news) => ({
    ...news,
    wamid: news.wamid === null ? null : view.subject({ type: "message", key: news.wamid }),
  }));
  return { ...hydration, found };
}

/** Masked, the base64 of the body is left out: it would hold everything in clear. */
export function maskedDetail(event: ShownEventDetail, view: PrivateView): unknown {
  if (!view.isMasked) return event;
  const { body: _, ...rest } = event;
  const wamid = event.subject?.type === "message" ? event.subject.key : null;
  return {
    ...rest,
    ...maskedEvent(event, view),
    body: null,
    hydration: event.hydration === null ? null : maskedHydration(event.hydration, view),
    text: event.text === null ? null : view.body(event.text, wamid),
    deliveries: event.deliveries.map((delivery) => ({
      ...delivery,
      tries: delivery.tries.map((each) => ({ ...each, response: each.response === null ? null : view.text(each.response) })),
    })),
  };
}
