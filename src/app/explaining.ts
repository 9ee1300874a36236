import type { DeliveryStory, EventStory, Explained, ExplainPort, Story } from "../control/reading.ts";
import type { NextStep } from "../model/answers.ts";
import type { BreakerView } from "../model/breaker.ts";
import { isProxyRoute } from "../model/delivery.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { ExplainQuery } from "../model/queries.ts";

import type { StoreReading } from "../store/reading.ts";
import type { DeliveryView, EventDetail, WaitingEvent } from "../store/views.ts";

interface ExplainingParts {
  readonly read: Pick<StoreReading, "events" | "deliveries" | "messages" | "runs" | "stories">;
  readonly now: () => number;
  /** Of the routes of the settings. */
  readonly breakers: () => MaybePromise<ReadonlyMap<string, BreakerView>>;
}

interface StoredStory extends EventStory {
  readonly event: EventDetail;
}

interface EventPage extends Pick<Story, "next"> {
  readonly events: readonly StoredStory[];
}

/** Most messages and runs of one name: a reference shared by more does not identify anything. */
const mostStories = 20;
const mostAttempts = 20;

/** Builds the story of an event, message or run from the stored rows and the breakers. */
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
    const breaker = (await breakers()).get(route);
    if (breaker === undefined) return step("no route");
    if (state === "held") {
      const held = await read.stories.held(event, route);
      return step("held", held ?? {});
    }
    const { pausedUntil } = breaker;
    if (pausedUntil !== null && pausedUntil > Math.max(now(), nextAt ?? 0)) return step("paused", { at: pausedUntil });
    if (breaker.state === "open") return step("breaker", { at: nextAt });
    return step(nextAt !== null && nextAt > now() ? "attempt" : "due", { at: nextAt });
  }

  async function deliveryStory(delivery: DeliveryView): Promise<DeliveryStory> {
    const attemptHistory = await read.deliveries.attempts(delivery);
    const shown = attemptHistory.slice(-mostAttempts);
    return { ...delivery, attemptHistory: shown, earlierAttempts: attemptHistory.length - shown.length, next: await nextOf(delivery) };
  }

  async function eventStory(seq: number): Promise<StoredStory | null> {
    const event = await read.events.get(seq);
    if (event === null) return null;
    const ahead = event.disposition === "accepted" ? await read.stories.ahead(seq) : null;
    const waits = ahead === null ? null : { since: event.receivedAt, ahead };
    const deliveries = await read.deliveries.list({ event: seq, limit: 1000 });
    return { event, waits, deliveries: await Promise.all(deliveries.toReversed().map(deliveryStory)) };
  }

  async function eventsOf(seqs: readonly number[]): Promise<StoredStory[]> {
    const stories = await Promise.all(seqs.map(eventStory));
    return stories.filter((story) => story !== null);
  }

  /** `waiting`: seqs of matching unplanned events, smallest first. */
  async function withEvents(
    type: "message" | "run",
    account: string,
    key: string,
    { after = 0, limit }: ExplainQuery,
    waiting: readonly number[] = [],
  ): Promise<EventPage> {
    const planned = await read.stories.eventsOf(type, account, key, after, limit + 1);
    const seqs = [...new Set([...planned, ...waiting])].sort((a, b) => a - b);
    const shown = seqs.slice(0, limit);
    return { events: await eventsOf(shown), next: seqs.length > limit ? (shown.at(-1) ?? null) : null };
  }

  async function messagesNamed(query: ExplainQuery): Promise<Explained> {
    const { name, after = 0 } = query;
    const isOfAccount = isOf(query);
    const known = (await read.messages.find(name, query)).filter(isOfAccount).slice(0, mostStories);
    const wamids = new Set([name, ...known.map(({ wamid }) => wamid)]);
    const { events, unseen } = await read.stories.waitingOf([...wamids], { after, before: Number.MAX_SAFE_INTEGER });
    const waiting = Map.groupBy(events.filter(isOfAccount), ({ account, wamid }) => nameOf(account, wamid));
    // Again: a message whose first events were planned between the first lookup and this search is in neither result.
    const found = (await read.messages.find(name, query)).filter(isOfAccount).slice(0, mostStories);
    const stories = found.map(async (message): Promise<Story> => {
      const { account, wamid } = message;
      const seqs = waiting.get(nameOf(account, wamid))?.map(({ seq }) => seq);
      return { message, run: null, ...(await withEvents("message", account, wamid, query, seqs)) };
    });
    for (const { account, wamid } of found) waiting.delete(nameOf(account, wamid));
    const unknown = [...waiting.values()].map((some) => unknownStory(some, query));
    return { stories: (await Promise.all([...stories, ...unknown])).filter((story) => story !== null), unseen };
  }

  /** The story of a message that has no planned event yet. */
  async function unknownStory(events: readonly WaitingEvent[], query: ExplainQuery): Promise<Story | null> {
    const [first] = events;
    if (first === undefined || first.wamid !== query.name) return null;
    const seqs = events.map(({ seq }) => seq);
    const told = await withEvents("message", first.account, first.wamid, query, seqs);
    const [story] = told.events;
    // Which may be meanwhile.
    return story === undefined ? null : { ...(await aboutOf(story.event)), ...told };
  }

  async function runsNamed(query: ExplainQuery): Promise<Story[]> {
    const found = (by: { runId: string } | { reference: string }) =>
      read.runs.list({
        account: query.account,
        accounts: query.accounts,
        after: 0,
        before: Number.MAX_SAFE_INTEGER,
        limit: mostStories,
        ...by,
      });
    const byId = await found({ runId: query.name });
    const runs = byId.length > 0 ? byId : await found({ reference: query.name });
    return Promise.all(
      runs.map(async ({ seq: _, ...run }) => ({ message: null, run, ...(await withEvents("run", run.account, run.runId, query)) })),
    );
  }

  /** Events, with their message or run. */
  async function eventsNamed({ name, ...of }: ExplainQuery): Promise<Story[]> {
    const isSeq = /^\d{1,15}$/.test(name) && (await read.events.get(Number(name))) !== null;
    const stories = await eventsOf(isSeq ? [Number(name)] : await read.events.seqsOf(name));
    return Promise.all(
      stories
        .filter(({ event }) => isOf(of)(event))
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
      if (as === "event") return { stories: await eventsNamed(query), unseen: 0 };
      if (as === "message") return messagesNamed(query);
      if (as === "run") return { stories: await runsNamed(query), unseen: 0 };
      const events = await eventsNamed(query);
      if (events.length > 0) return { stories: events, unseen: 0 };
      // Messages and runs may share a reference.
      const { stories, unseen } = await messagesNamed(query);
      return { stories: [...stories, ...(await runsNamed(query))], unseen };
    },
  };
}

/** Whether something is of the accounts that a query is about. */
function isOf({ account, accounts }: Pick<ExplainQuery, "account" | "accounts">) {
  return (one: { readonly account: string }): boolean =>
    (account === undefined || one.account === account) && (accounts === undefined || accounts.includes(one.account));
}

/** Account names have no colon. */
const nameOf = (account: string, wamid: string): string => `${account}:${wamid}`;
