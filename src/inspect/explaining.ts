import type { DeliveryView, EventDetail, NextStep } from "../model/answers/events.ts";
import type { EventStory, Story } from "../model/answers/subjects.ts";
import { type BreakerView, isProxyRoute } from "../model/delivery.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { ExplainQuery } from "../model/queries.ts";
import type { StoreReading } from "../store/read/reading.ts";
import { runsNamed, seqsBehind, subjectOf } from "./searching.ts";

interface ExplainingParts {
  readonly read: StoreReading;
  readonly now: () => number;
  /** Of the routes of the settings. */
  readonly breakers: () => MaybePromise<ReadonlyMap<string, BreakerView>>;
}

const noStep = { at: null, behind: null, ahead: 0, reason: null };
/** Most messages and runs of one name: a reference shared by more does not identify anything. */
const mostStories = 20;
const mostAttempts = 20;

/**
 * Builds the story of an event, message or run from the stored rows and the breakers. Several when
 * accounts, or messages with one reference, share the name; none when nothing has it.
 */
export function createExplaining({ read, now, breakers }: ExplainingParts) {
  async function nextOf(delivery: DeliveryView): Promise<NextStep> {
    const { route, event, state, nextAt } = delivery;
    const step = (kind: NextStep["kind"], more: Partial<NextStep> = {}): NextStep => ({
      ...noStep,
      kind,
      ...more,
    });
    if (state === "delivered") return step("done");
    if (state === "dead") return step("dead");
    if (isProxyRoute(route)) return step("exchange");
    const reason = await read.stopReason(route);
    if (reason !== null) return step("stopped", { reason });
    const breaker = (await breakers()).get(route);
    if (breaker === undefined) return step("no route");
    if (state === "held") {
      const held = await read.heldBehind(event, route);
      return step("held", held ?? {});
    }
    const { pausedUntil } = breaker;
    if (pausedUntil !== null && pausedUntil > Math.max(now(), nextAt ?? 0))
      return step("paused", { at: pausedUntil });
    if (breaker.state === "open")
      return step("breaker", { at: Math.max(nextAt ?? 0, breaker.openUntil ?? 0) || null });
    if (nextAt !== null && nextAt > now()) return step("attempt", { at: nextAt });
    return breaker.state === "half-open" ? step("breaker") : step("due", { at: nextAt });
  }

  async function deliveriesOf(event: number) {
    const deliveries = await read.listDeliveries({ event, limit: 1000 });
    return Promise.all(
      deliveries.toReversed().map(async (delivery) => {
        const attemptHistory = await read.attemptsOf(delivery);
        return { ...delivery, attemptHistory, next: await nextOf(delivery) };
      }),
    );
  }

  async function eventStory(seq: number): Promise<EventStory | null> {
    const event = await read.getEvent(seq);
    if (event === null) return null;
    const deliveries = (await deliveriesOf(seq)).map(({ attemptHistory: all, ...delivery }) => {
      const attemptHistory = all.slice(-mostAttempts);
      return { ...delivery, attemptHistory, earlierAttempts: all.length - attemptHistory.length };
    });
    return { ...event, deliveries };
  }

  async function eventsOf(seqs: readonly number[]): Promise<EventStory[]> {
    return (await Promise.all(seqs.map(eventStory))).filter((story) => story !== null);
  }

  async function storiesOf(type: "message" | "run", query: ExplainQuery): Promise<Story[]> {
    const { name, after = 0, limit } = query;
    const found =
      type === "run"
        ? await runsNamed(read, name, mostStories, query)
        : (await read.findMessages(name, query)).slice(0, mostStories);
    return Promise.all(
      found.map(async (subject): Promise<Story> => {
        const seqs = await read.eventsOf(
          type,
          subject.account,
          subjectOf(subject).key,
          after,
          limit + 1,
        );
        const shown = seqs.slice(0, limit);
        const events = {
          events: await eventsOf(shown),
          next: seqs.length > limit ? (shown.at(-1) ?? null) : null,
        };
        return "wamid" in subject
          ? { message: subject, run: null, ...events }
          : { message: null, run: subject, ...events };
      }),
    );
  }

  async function eventsNamed({ name, account, accounts }: ExplainQuery): Promise<Story[]> {
    const found = (await eventsOf(await seqsBehind(read, name))).filter(
      (event) =>
        (account === undefined || event.account === account) &&
        (accounts === undefined || accounts.includes(event.account)),
    );
    return Promise.all(
      found.map(async (event) => ({ ...(await aboutOf(event)), events: [event], next: null })),
    );
  }

  async function aboutOf({
    subject,
    account,
  }: EventDetail): Promise<Pick<Story, "message" | "run">> {
    if (subject?.type === "message") {
      const [message = null] = await read.findMessages(subject.key, { account });
      return { message, run: null };
    }
    if (subject === null) return { message: null, run: null };
    const [run] = await read.listRuns({ account, runId: subject.key, limit: 1 });
    return { message: null, run: run ?? null };
  }

  return {
    deliveriesOf,
    async explain(query: ExplainQuery): Promise<readonly Story[]> {
      const { as } = query;
      if (as === "event") return eventsNamed(query);
      if (as !== undefined) return storiesOf(as, query);
      const events = await eventsNamed(query);
      // Messages and runs may share a reference.
      return events.length > 0
        ? events
        : [...(await storiesOf("message", query)), ...(await storiesOf("run", query))];
    },
  };
}
