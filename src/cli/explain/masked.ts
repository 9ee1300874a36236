import type { PrivateView } from "../private-view.ts";
import type { StoryView } from "./views.ts";

/** A story as `--json` prints it: people's data masked unless asked for. */
export function maskedStory(story: StoryView, view: PrivateView): unknown {
  if (!view.isMasked) return story;
  const text = (value: string | null) => (value === null ? null : view.text(value));
  const wamid = (value: string) => view.subject({ type: "message", key: value });
  const metadata = (value: unknown) => (value === null ? null : JSON.parse(view.text(JSON.stringify(value))));
  const { message, run, events, next } = story;
  return {
    message:
      message === null
        ? null
        : { ...message, wamid: wamid(message.wamid), reference: text(message.reference), metadata: metadata(message.metadata) },
    run: run === null ? null : { ...run, reference: text(run.reference), metadata: metadata(run.metadata), error: text(run.error) },
    events: events.map((event) => ({
      ...event,
      subject: event.subject === null ? null : { ...event.subject, key: view.subject(event.subject) },
      hydration:
        event.hydration === null
          ? null
          : {
              ...event.hydration,
              found: event.hydration.found.map((each) => ({ ...each, wamid: each.wamid === null ? null : wamid(each.wamid) })),
            },
      deliveries: event.deliveries.map((delivery) => ({
        ...delivery,
        tries: delivery.tries.map((each) => ({ ...each, response: text(each.response) })),
      })),
    })),
    next,
  };
}
