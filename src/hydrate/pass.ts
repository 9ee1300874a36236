import { type Clock, growingWait, pause, withJitter } from "../model/clock.ts";
import type {
  CoveredEvents,
  GiveUpReason,
  HydrationEnd,
  HydrationPass,
  ReadMessage,
} from "../model/hydration.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { PollAnswer } from "../model/poll.ts";
import { countUnread, type TrackedMessages, unreadMessages } from "./candidates.ts";
import type { HydrateSettings } from "./settings.ts";

/** A pass that another process has taken over or ended changes nothing more. */
export interface HydrationStore extends TrackedMessages {
  covered(pass: HydrationPass): MaybePromise<CoveredEvents | null>;
  noteReads(
    pass: HydrationPass,
    polled: number,
    read: readonly ReadMessage[],
    now: number,
  ): Promise<void>;
  callsSince(account: string, since: number): MaybePromise<number>;
  /** Fewer than `limit` events: there are no more. */
  settleCovered(
    pass: HydrationPass,
    end: HydrationEnd,
    now: number,
    limit: number,
  ): Promise<{ readonly events: number }>;
  endPass(pass: HydrationPass): Promise<void>;
}

export interface HydrationMessages {
  poll(account: string, messageId: string, signal: AbortSignal): Promise<PollAnswer>;
  /** Submits a status like a received event if it changes the message; true when it did. */
  submit(
    pass: HydrationPass,
    messageId: string,
    found: Extract<PollAnswer, { type: "found" }>,
  ): Promise<boolean>;
}

export interface PassParts {
  readonly store: HydrationStore;
  readonly messages: HydrationMessages;
  readonly clock: Clock;
  readonly random: () => number;
  readonly settings: () => HydrateSettings;
  readonly onRead: (pass: HydrationPass, polled: number, changed: number) => void;
  readonly onSettled: (pass: HydrationPass, state: "done" | "given-up", events: number) => void;
}

/** The results of a pass since this process began or resumed it. */
export interface PassTally {
  readonly events: number;
  readonly polled: number;
  /** Answers with a new status. */
  readonly changed: number;
  /** The service does not know them. */
  readonly missing: number;
  readonly unknown: number;
  readonly gaveUp: GiveUpReason | null;
}

const atOnce = 8;
/** Events settled in one transaction. */
const settleStep = 100;
/** While all polls of an account are faulty, one call checks again after this. */
const faultyMs = 5 * 60_000;

type Item = { readonly id: string; readonly message: number; failures: number };

/**
 * Reads all candidates of the covered events, latest registered first, submits new statuses, and
 * settles the events when all are read or their time is up. Waits with backoff while the service
 * cannot be called. The store records what was read, so that a crash does not repeat it. `signal`
 * interrupts the pass, and the result is null; it resumes later.
 */
export async function runHydrationPass(
  pass: HydrationPass,
  parts: PassParts,
  signal: AbortSignal,
): Promise<PassTally | null> {
  const { store, messages, clock } = parts;
  const tally = {
    events: 0,
    polled: 0,
    changed: 0,
    missing: 0,
    unknown: 0,
    gaveUp: null as GiveUpReason | null,
  };
  let covered: CoveredEvents | null = pass.covered;
  let failures = 0;
  let hasAnswered = false;
  let hasFound = false;
  /** Answered 404 before the service had found any message: read again once it has. */
  const doubtful: Item[] = [];

  /** In steps, each a transaction. */
  async function settle(
    facts: CoveredEvents,
    reason: GiveUpReason | null,
    receivedBy: number,
  ): Promise<void> {
    const unknown = await countUnread({ store, pass, covered: facts, settings: parts.settings() });
    Object.assign(tally, { unknown, gaveUp: reason });
    let events: number;
    do {
      ({ events } = await store.settleCovered(
        pass,
        { reason, unknown, receivedBy },
        clock.now(),
        settleStep,
      ));
      tally.events += events;
      if (events > 0) parts.onSettled(pass, reason === null ? "done" : "given-up", events);
    } while (events === settleStep);
  }

  /** At most until the oldest event's time is up, or until the signal is aborted. */
  async function waitAtMost(ms: number, { oldest }: CoveredEvents): Promise<void> {
    const least = Math.max(1, Math.min(ms, oldest + parts.settings().giveUpAfter - clock.now()));
    await pause(clock, least, signal).catch(() => {});
  }

  async function readOne(item: Item) {
    const answer = await messages.poll(pass.account, item.id, signal);
    return {
      item,
      answer,
      isNew: answer.type === "found" && (await messages.submit(pass, item.id, answer)),
    };
  }

  /** Reads some items; returns those to read again and how long to wait first. */
  async function round(
    items: readonly Item[],
  ): Promise<{ later: Item[]; wait: number | null; hasKey: boolean }> {
    const read: ReadMessage[] = [];
    const later: Item[] = [];
    let [polled, changed, wait, hasKey] = [0, 0, null as number | null, true];
    for (const { item, answer, isNew } of await Promise.all(items.map(readOne))) {
      const { type } = answer;
      if (type === "no-client") hasKey = false;
      else if (type === "found" || type === "missing" || (type === "failed" && answer.isFinal)) {
        polled += 1;
        changed += Number(isNew);
        hasFound ||= type === "found";
        if (type === "missing") tally.missing += 1;
        if (type === "found" || (type === "missing" && answer.isCredible))
          read.push({ message: item.message, at: answer.at });
        else if (type === "missing") doubtful.push(item);
      } else {
        later.push(item);
        const until =
          type === "held" ? answer.until : type === "faulty" ? clock.now() + faultyMs : null;
        if (until !== null) wait = Math.max(wait ?? Number.NEGATIVE_INFINITY, until - clock.now());
      }
    }
    tally.polled += polled;
    tally.changed += changed;
    if (polled > 0) {
      hasAnswered = true;
      await store.noteReads(pass, polled, read, clock.now());
      parts.onRead(pass, polled, changed);
    }
    failures = polled > 0 ? 0 : failures + 1;
    return { later, wait, hasKey };
  }

  const unread = unreadMessages({ store, pass, covered, settings: parts.settings() }, true);
  let first: Item[] = [];
  let last: Item[] = [];
  while (!signal.aborted && covered !== null) {
    const { giveUpAfter, callsPerDay } = parts.settings();
    const now = clock.now();
    if (now >= covered.oldest + giveUpAfter) {
      await settle(covered, "too-long", now - giveUpAfter);
      covered = await store.covered(pass);
      continue;
    }
    // One call is enough to find out whether the service is back.
    const most = failures > 0 ? 1 : atOnce;
    const items = first.splice(0, most);
    while (items.length < most) {
      const { value } = await unread.next();
      if (value === undefined) break;
      items.push({ message: value.message, id: value.messageId as string, failures: 0 });
    }
    const isTail = items.length === 0;
    if (isTail) items.push(...last.splice(0, most));
    if (items.length === 0 && hasFound) items.push(...doubtful.splice(0, most));
    if (items.length === 0) {
      await settle(covered, null, Number.MAX_SAFE_INTEGER);
      break;
    }
    const left = Math.max(0, callsPerDay - (await store.callsSince(pass.account, now - dayMs)));
    first.unshift(...items.splice(left));
    if (items.length === 0) {
      await waitAtMost(budgetWaitMs, covered);
      continue;
    }
    const { later, wait, hasKey } = await round(items);
    if (!hasKey) {
      await settle(covered, "no-key", Number.MAX_SAFE_INTEGER);
      break;
    }
    if (failures === 0) {
      last.push(...countFailures(later));
      continue;
    }
    if (isTail && hasAnswered && wait === null) last = [...countFailures(later), ...last];
    else first = [...later, ...first];
    if (!signal.aborted) await waitAtMost(waitAfter(failures, wait, parts.random()), covered);
  }
  if (signal.aborted) return null;
  await store.endPass(pass);
  return tally;
}

/** Adds a failure to each item, and drops those that failed too often. */
function countFailures(items: readonly Item[]): Item[] {
  for (const item of items) item.failures += 1;
  return items.filter(({ failures }) => failures < mostFailuresOfOne);
}

/** First wait while the service cannot be called, doubled each time. */
const firstWaitMs = 30_000;
/** Longest wait, even if the service asks for a longer one (the plan may have changed). */
const longestWaitMs = 10 * 60_000;

/**
 * How long to wait before the next call, in ms.
 *
 * @param failures rounds in a row without any answer, from 1
 * @param until when the service can be called again, in ms from now; null: unknown
 * @param random from 0 up to 1
 */
export function waitAfter(failures: number, until: number | null, random: number): number {
  if (until !== null && until > 0) return Math.min(longestWaitMs, until);
  return withJitter(growingWait(failures, firstWaitMs, longestWaitMs), random);
}

/** How often one message may fail while others are answered, until it counts as unread. */
const mostFailuresOfOne = 5;

/** The wait when the day's calls are used up. */
const budgetWaitMs = 10 * 60_000;
const dayMs = 86_400_000;
