import { maskedDelivery, maskedEvent, maskedHydration } from "../control-views.ts";
import type { PrivateView } from "../output.ts";
import type { StoryView } from "./views.ts";

/** A story as `--json` prints it: people's data masked unless asked for. */
export function maskedStory(story: StoryView, view: PrivateView): unknown {
  if (!view.isMasked) return story;
  const text = (value: string | null) => (value === null ? null : view.text(value));
  const wamid = (value: string) => view.subject({ type: "message", key: value });
  const metadata = (value: unknown) => (value === null ? null : JSON.parse(view.body(JSON.stringify(value), null)));
  const times = (of: Readonly<Record<string, string>>) =>
    Object.fromEntries(Object.entries(of).map(([status, at]) => [view.text(status), at]));
  const { message, run, events, next } = story;
  return {
    message:
      message === null
        ? null
        : {
            ...message,
            wamid: wamid(message.wamid),
            id: message.id === null ? null : view.id("message", message.id),
            status: text(message.status),
            errorCode: text(message.errorCode),
            times: times(message.times),
            reference: text(message.reference),
            metadata: metadata(message.metadata),
          },
    run:
      run === null
        ? null
        : {
            ...run,
            runId: view.subject({ type: "run", key: run.runId }),
            status: text(run.status),
            times: times(run.times),
            reference: text(run.reference),
            metadata: metadata(run.metadata),
            error: text(run.error),
          },
    events: events.map((event) => ({
      ...maskedEvent(event, view),
      hydration: event.hydration === null ? null : maskedHydration(event.hydration, view),
      deliveries: event.deliveries.map((delivery) => ({
        ...maskedDelivery(delivery, view),
        tries: delivery.tries.map((each) => ({ ...each, response: text(each.response) })),
      })),
    })),
    next,
  };
}
