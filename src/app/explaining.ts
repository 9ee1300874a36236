import type { DeliveryStory, EventStory, ExplainPort, ExplainQuery, NextStep, Story } from "../control/explain-port.ts";
import type { LaneState } from "../deliver/lane.ts";
import { isProxyRoute } from "../event/proxy-route.ts";
import type { DeliveryView } from "../store/sqlite/read-deliveries.ts";
import type { EventDetail } from "../store/sqlite/read-events.ts";
import type { StoreReader } from "../store/sqlite/reader.ts";

export interface ExplainingParts {
  readonly read: Pick<StoreReader, "events" | "deliveries" | "messages" | "runs" | "stories">;
  readonly now: () => number;
  /** Null: only the file is known, and neither settings nor breakers. */
  readonly lanes: (() => ReadonlyMap<string, Pick<LaneState, "breaker">>) | null;
}

interface StoredStory extends EventStory {
  readonly event: EventDetail;
}

/** Messages and runs of one name at most; a reference that more have is not one of a record. */
const mostStories = 20;
const mostTries = 20;

/** The story of an event, message or run, put together from the rows and the lanes. */
export function createExplaining({ read, now, lanes }: ExplainingParts): ExplainPort {
  function nextOf(delivery: DeliveryView): NextStep {
    const { route, event, state, nextAt } = delivery;
    const step = (kind: NextStep["kind"], more: Partial<NextStep> = {}): NextStep => ({
      kind,
      at: null,
      behind: null,
      ahead: 0,
      reason: null,
      ...more,
    });
    if (state === "delivered") return step("done");
    if (state === "dead") return step("dead");
    if (isProxyRoute(route)) return step("exchange");
    const reason = read.stories.stopReason(route);
    if (reason !== null) return step("stopped", { reason });
    const known = lanes?.();
    if (known !== undefined && !known.has(route)) return step("no route");
    if (state === "held") {
      const held = read.stories.held(event, route);
      return step("held", held ?? {});
    }
    if (known?.get(route)?.breaker === "open") return step("breaker", { at: nextAt });
    return step(nextAt !== null && nextAt > now() ? "attempt" : "due", { at: nextAt });
  }

  function deliveryStory(delivery: DeliveryView): DeliveryStory {
    const tries = read.deliveries.attempts(delivery);
    const shown = tries.slice(-mostTries);
    return { ...delivery, tries: shown, earlierTries: tries.length - shown.length, next: nextOf(delivery) };
  }

  function eventStory(seq: number): StoredStory | null {
    const event = read.events.get(seq);
    if (event === null) return null;
    return { event, deliveries: read.deliveries.list({ event: seq, limit: 1000 }).reverse().map(deliveryStory) };
  }

  function eventsOf(seqs: readonly number[]): StoredStory[] {
    return seqs.map(eventStory).filter((story) => story !== null);
  }

  function withEvents(type: "message" | "run", account: string, key: string, { after = 0, limit }: ExplainQuery) {
    const seqs = read.stories.eventsOf(type, account, key, after, limit + 1);
    const shown = seqs.slice(0, limit);
    return { events: eventsOf(shown), next: seqs.length > limit ? (shown.at(-1) ?? null) : null };
  }

  function messagesNamed(query: ExplainQuery): Story[] {
    return read.messages
      .find(query.name)
      .filter(({ account }) => query.account === undefined || account === query.account)
      .slice(0, mostStories)
      .map((message) => ({ message, run: null, ...withEvents("message", message.account, message.wamid, query) }));
  }

  function runsNamed(query: ExplainQuery): Story[] {
    const found = (by: { runId: string } | { reference: string }) =>
      read.runs.list({ account: query.account, after: 0, before: Number.MAX_SAFE_INTEGER, limit: mostStories, ...by });
    const byId = found({ runId: query.name });
    return (byId.length > 0 ? byId : found({ reference: query.name })).map(({ seq: _, ...run }) => ({
      message: null,
      run,
      ...withEvents("run", run.account, run.runId, query),
    }));
  }

  /** One event, with what it is about. */
  function eventsNamed({ name, account }: ExplainQuery): Story[] {
    const bySeq = /^\d{1,15}$/.test(name) && read.events.get(Number(name)) !== null ? [Number(name)] : read.events.seqsOf(name);
    return eventsOf(bySeq)
      .filter(({ event }) => account === undefined || event.account === account)
      .map((story): Story => {
        const { subject, account: of } = story.event;
        const message = subject?.type === "message" ? read.messages.find(subject.key).find((each) => each.account === of) : undefined;
        const run =
          subject?.type === "run"
            ? read.runs.list({ account: of, runId: subject.key, after: 0, before: Number.MAX_SAFE_INTEGER, limit: 1 })[0]
            : undefined;
        return { message: message ?? null, run: run ?? null, events: [story], next: null };
      });
  }

  return {
    explain(query) {
      const { as } = query;
      if (as === "event") return eventsNamed(query);
      if (as === "message") return messagesNamed(query);
      if (as === "run") return runsNamed(query);
      const events = eventsNamed(query);
      // A reference may be that of messages and of runs.
      return events.length > 0 ? events : [...messagesNamed(query), ...runsNamed(query)];
    },
  };
}
