import type { DeliveryStory, EventStory, ExplainPort, ExplainQuery, NextStep, Story } from "../control/explain-port.ts";
import type { BreakerState } from "../deliver/breaker.ts";
import { isProxyRoute } from "../event/proxy-route.ts";
import type { Soon } from "../event/soon.ts";
import type { DeliveryView } from "../store/delivery-views.ts";
import type { EventDetail } from "../store/event-views.ts";
import type { StoreReading } from "../store/reading.ts";

export interface ExplainingParts {
  readonly read: Pick<StoreReading, "events" | "deliveries" | "messages" | "runs" | "stories">;
  readonly now: () => number;
  /** By the routes of the settings. */
  readonly breakers: () => Soon<ReadonlyMap<string, BreakerState>>;
}

interface StoredStory extends EventStory {
  readonly event: EventDetail;
}

/** Messages and runs of one name at most; a reference that more have is not one of a record. */
const mostStories = 20;
const mostTries = 20;

/** The story of an event, message or run, put together from the rows and the lanes. */
export function createExplaining({ read, now, breakers }: ExplainingParts): ExplainPort {
  async function nextOf(delivery: DeliveryView): Promise<NextStep> {
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
    const reason = await read.stories.stopReason(route);
    if (reason !== null) return step("stopped", { reason });
    const known = await breakers();
    if (!known.has(route)) return step("no route");
    if (state === "held") {
      const held = await read.stories.held(event, route);
      return step("held", held ?? {});
    }
    if (known.get(route) === "open") return step("breaker", { at: nextAt });
    return step(nextAt !== null && nextAt > now() ? "attempt" : "due", { at: nextAt });
  }

  async function deliveryStory(delivery: DeliveryView): Promise<DeliveryStory> {
    const tries = await read.deliveries.attempts(delivery);
    const shown = tries.slice(-mostTries);
    return { ...delivery, tries: shown, earlierTries: tries.length - shown.length, next: await nextOf(delivery) };
  }

  async function eventStory(seq: number): Promise<StoredStory | null> {
    const event = await read.events.get(seq);
    if (event === null) return null;
    const deliveries = await read.deliveries.list({ event: seq, limit: 1000 });
    return { event, deliveries: await Promise.all(deliveries.toReversed().map(deliveryStory)) };
  }

  async function eventsOf(seqs: readonly number[]): Promise<StoredStory[]> {
    const stories = await Promise.all(seqs.map(eventStory));
    return stories.filter((story) => story !== null);
  }

  async function withEvents(type: "message" | "run", account: string, key: string, { after = 0, limit }: ExplainQuery) {
    const seqs = await read.stories.eventsOf(type, account, key, after, limit + 1);
    const shown = seqs.slice(0, limit);
    return { events: await eventsOf(shown), next: seqs.length > limit ? (shown.at(-1) ?? null) : null };
  }

  async function messagesNamed(query: ExplainQuery): Promise<Story[]> {
    const found = await read.messages.find(query.name);
    return Promise.all(
      found
        .filter(({ account }) => query.account === undefined || account === query.account)
        .slice(0, mostStories)
        .map(async (message) => ({ message, run: null, ...(await withEvents("message", message.account, message.wamid, query)) })),
    );
  }

  async function runsNamed(query: ExplainQuery): Promise<Story[]> {
    const found = (by: { runId: string } | { reference: string }) =>
      read.runs.list({ account: query.account, after: 0, before: Number.MAX_SAFE_INTEGER, limit: mostStories, ...by });
    const byId = await found({ runId: query.name });
    const runs = byId.length > 0 ? byId : await found({ reference: query.name });
    return Promise.all(
      runs.map(async ({ seq: _, ...run }) => ({ message: null, run, ...(await withEvents("run", run.account, run.runId, query)) })),
    );
  }

  /** One event, with what it is about. */
  async function eventsNamed({ name, account }: ExplainQuery): Promise<Story[]> {
    const isSeq = /^\d{1,15}$/.test(name) && (await read.events.get(Number(name))) !== null;
    const stories = await eventsOf(isSeq ? [Number(name)] : await read.events.seqsOf(name));
    return Promise.all(
      stories
        .filter(({ event }) => account === undefined || event.account === account)
        .map(async (story) => ({ ...(await aboutOf(story.event)), events: [story], next: null })),
    );
  }

  async function aboutOf({ subject, account }: EventDetail): Promise<Pick<Story, "message" | "run">> {
    if (subject?.type === "message") {
      const found = await read.messages.find(subject.key);
      return { message: found.find((each) => each.account === account) ?? null, run: null };
    }
    if (subject === null) return { message: null, run: null };
    const [run] = await read.runs.list({ account, runId: subject.key, after: 0, before: Number.MAX_SAFE_INTEGER, limit: 1 });
    return { message: null, run: run ?? null };
  }

  return {
    async explain(query) {
      const { as } = query;
      if (as === "event") return eventsNamed(query);
      if (as === "message") return messagesNamed(query);
      if (as === "run") return runsNamed(query);
      const events = await eventsNamed(query);
      // A reference may be that of messages and of runs.
      return events.length > 0 ? events : [...(await messagesNamed(query)), ...(await runsNamed(query))];
    },
  };
}
