import type { RelayStory } from "../../client/relay-client.ts";

type StoryEvent = RelayStory["events"][number];

const beginnings = ["pending", "started"];

export interface Step {
  readonly status: string;
  readonly at: string;
  /** The origin of the event that reported it; null when no stored event did. */
  readonly origin: string | null;
  readonly event: number | null;
}

/**
 * How a message or run came to its status, oldest step first. `sentAt` is the first step when no
 * event reported an earlier one.
 */
export function stepsOf(
  times: Readonly<Record<string, string>>,
  events: readonly StoryEvent[],
  sentAt: string | null = null,
): Step[] {
  const steps = Object.entries(times).map(([status, at]): Step => {
    const reports = events.filter((event) => event.status === status);
    const event = reports.find(({ transition }) => transition) ?? reports[0];
    return { status, at, origin: event?.origin ?? null, event: event?.seq ?? null };
  });
  if (
    sentAt !== null &&
    steps.every(({ status, at }) => status !== "pending" && Date.parse(at) > Date.parse(sentAt))
  ) {
    steps.push({ status: "pending", at: sentAt, origin: "registration", event: null });
  }
  steps.sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  // A webhook can overtake the service's answer to a send or to the start of a run.
  const [first] = steps;
  const started = steps.findIndex(
    ({ status, event }) => beginnings.includes(status) && event === null,
  );
  if (first !== undefined && started > 0)
    steps.unshift(...steps.splice(started, 1).map((step) => ({ ...step, at: first.at })));
  return steps;
}

export interface Bar {
  /** From 0 to 1 of the whole time. */
  readonly from: number;
  readonly to: number;
  /** Milliseconds since the step before; null for the first. */
  readonly sinceMs: number | null;
}

/**
 * Places each step between the first step and `end`, in proportion to its time. A step lasts until
 * the next one.
 */
export function barsOf(steps: readonly Pick<Step, "at">[], end: number | null = null): Bar[] {
  const times = steps.map(({ at }) => Date.parse(at));
  const first = times[0] ?? 0;
  const last = Math.max(times.at(-1) ?? 0, end ?? 0);
  const place = (time: number): number => (last === first ? 0 : (time - first) / (last - first));
  return times.map((time, index) => {
    const before = times[index - 1];
    const next = times[index + 1] ?? (end === null ? time : Math.max(end, time));
    return {
      from: place(time),
      to: place(next),
      sinceMs: before === undefined ? null : time - before,
    };
  });
}
