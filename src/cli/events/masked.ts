import type { ShownDelivery, ShownEvent, ShownEventDetail } from "../control-views.ts";
import type { PrivateView } from "../private-view.ts";

/** All that the sender of an event chose. Also of the events in a story. */
export function maskedEvent<Event extends ShownEvent>(event: Event, view: PrivateView): Event {
  const text = (value: string | null) => (value === null ? null : view.text(value));
  return {
    ...event,
    id: event.id === null ? null : view.id("event", event.id),
    event: text(event.event),
    status: text(event.status),
    previousStatus: text(event.previousStatus),
    errorCode: text(event.errorCode),
    fault: text(event.fault),
    subject: event.subject === null ? null : { ...event.subject, key: view.subject(event.subject) },
  };
}

export function maskedDelivery<Delivery extends ShownDelivery>(delivery: Delivery, view: PrivateView): Delivery {
  return {
    ...delivery,
    id: view.delivery(delivery.id),
    eventId: view.id("event", delivery.eventId),
    reason: delivery.reason === null ? null : view.text(delivery.reason),
  };
}

/** Of what became of a truncated event, the parts in which events and explain are alike. */
interface Hydration {
  found: { wamid: string | null; status: string | null }[];
  candidates: { runId: string; reference: string | null }[] | null;
}

export function maskedHydration<H extends Hydration>(hydration: H, view: PrivateView): H {
  const found = hydration.found.map((news) => ({
    ...news,
    wamid: news.wamid === null ? null : view.subject({ type: "message", key: news.wamid }),
    status: news.status === null ? null : view.text(news.status),
  }));
  const candidates = hydration.candidates?.map((run) => maskedCandidate(run, view)) ?? null;
  return { ...hydration, found, candidates };
}

function maskedCandidate<Run extends { runId: string; reference: string | null }>(run: Run, view: PrivateView): Run {
  return { ...run, runId: view.id("run", run.runId), reference: run.reference === null ? null : view.text(run.reference) };
}

/** Masked, the base64 of the body is left out: it would hold everything in clear. */
export function maskedDetail(event: ShownEventDetail, view: PrivateView): unknown {
  if (!view.isMasked) return event;
  const { body: _, ...rest } = event;
  const wamid = event.subject?.type === "message" ? event.subject.key : null;
  return {
    ...maskedEvent(rest as ShownEvent, view),
    body: null,
    hydration: event.hydration === null ? null : maskedHydration(event.hydration, view),
    text: event.text === null ? null : view.body(event.text, wamid),
    deliveries: event.deliveries.map((delivery) => ({
      ...maskedDelivery(delivery, view),
      tries: delivery.tries.map((each) => ({ ...each, response: each.response === null ? null : view.text(each.response) })),
    })),
  };
}
