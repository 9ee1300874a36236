import { growingWait, withJitter } from "../model/backoff.ts";
import { type Clock, pause } from "../model/clock.ts";
import type { CoveredEvents, GiveUpReason, HydrationPass, HydrationStore, ReadMessage } from "../model/hydration.ts";
import type { MessageKey } from "../model/message.ts";
import type { PollAnswer } from "../model/poll.ts";
import { countUnread, unreadMessages } from "./candidates.ts";
import type { HydrateSettings } from "./settings.ts";

export interface HydratedStatus {
  readonly wamid: string;
  readonly status: string;
  readonly errorCode: string | null;
  readonly messageId: string;
  readonly account: string;
  readonly source: string;
  readonly because: string;
}

export interface HydrationMessages {
  poll(account: string, messageId: string, signal: AbortSignal): Promise<PollAnswer>;
  /** Submits a status like a received event if it changes the message; true when it did. */
  submit(status: HydratedStatus): Promise<boolean>;
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

interface HydratorParts extends PassParts {
  readonly finished: (pass: HydrationPass, tally: PassTally, tookMs: number) => void;
  readonly supervise: (task: { readonly name: string; readonly firstMs: number; run(signal: AbortSignal): Promise<number | null> }) => Task;
}

interface Task {
  wake(): void;
  close(): Promise<void>;
}

/**
 * Reads through the API what truncated events may have reported. Makes one pass at a time per account over all waiting
 * events. Later events wait for the next pass, so that a burst costs one or two passes.
 */
export function createHydrator(parts: HydratorParts) {
  const { store, clock, settings, finished, supervise } = parts;
  const tasks = new Map<string, Task>();
  let isClosed = false;
  /** Accounts whose next pass is delayed. */
  const delayed = new Set<string>();

  /** Resolves with the wait before the next pass. Null: no event waits. */
  async function passOnce(account: string, signal: AbortSignal): Promise<number | null> {
    delayed.delete(account);
    const since = await store.waitingSince(account);
    if (since === null) return null;
    const waitMs = since + settings().delay - clock.now();
    if (waitMs > 0) {
      delayed.add(account);
      return waitMs;
    }
    const startedAt = clock.now();
    const pass = await store.beginPass(account, startedAt);
    if (pass === null) return null;
    const tally = await runHydrationPass(pass, parts, signal);
    if (tally !== null) finished(pass, tally, clock.now() - startedAt);
    return 0;
  }

  return {
    wake(account: string): void {
      const task = tasks.get(account);
      if (isClosed) return;
      if (task === undefined) {
        const name = `hydration for account ${account}`;
        tasks.set(account, supervise({ name, firstMs: 0, run: (signal) => passOnce(account, signal) }));
      } else if (!delayed.has(account)) task.wake();
    },
    /** Interrupts the passes; resolves when all have ended. */
    async close(): Promise<void> {
      isClosed = true;
      await Promise.all([...tasks.values()].map((task) => task.close()));
    },
  };
}

const atOnce = 8;
/** Events settled in one transaction. */
const settleStep = 100;
/** While all polls of an account are faulty, one call checks again after this. */
const faultyMs = 5 * 60_000;

type Item = { readonly id: string; readonly message: MessageKey; failures: number };

/**
 * Reads all candidates of the covered events, latest registered first, submits new statuses, and settles the events when
 * all are read or their time is up. Waits with backoff while the service cannot be called. The store records what was
 * read, so that a crash does not repeat it. `signal` interrupts the pass, and the result is null; it resumes later.
 */
export async function runHydrationPass(pass: HydrationPass, parts: PassParts, signal: AbortSignal): Promise<PassTally | null> {
  const { store, messages, clock } = parts;
  const tally = { events: 0, polled: 0, changed: 0, missing: 0, unknown: 0, gaveUp: null as GiveUpReason | null };
  let covered: CoveredEvents | null = pass.covered;
  let failures = 0;
  let hasAnswered = false;
  let hasFound = false;
  /** Answered 404 before the service had found any message: read again once it has. */
  let doubtful: Item[] = [];

  async function settle(facts: CoveredEvents, reason: GiveUpReason | null, receivedBy: number): Promise<void> {
    const { events, unknown } = await settleAll(pass, parts, facts, reason, receivedBy);
    tally.events += events;
    tally.unknown = unknown;
    tally.gaveUp = reason;
  }

  async function readOne(item: Item) {
    const { account, source, because } = pass;
    const answer = await messages.poll(account, item.id, signal);
    if (answer.type !== "found") return { item, answer, isNew: false };
    const { wamid, status, errorCode } = answer;
    const isNew = await messages.submit({ account, source, because, messageId: item.id, wamid, status, errorCode });
    return { item, answer, isNew };
  }

  /** Reads some items; returns those to read again and how long to wait first. */
  async function round(items: readonly Item[]): Promise<{ later: Item[]; wait: number | null; hasKey: boolean }> {
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
        if (type === "found" || (type === "missing" && answer.isCredible)) read.push({ message: item.message, at: answer.at });
        else if (type === "missing") doubtful.push(item);
      } else {
        later.push(item);
        const until = type === "held" ? answer.until : type === "faulty" ? clock.now() + faultyMs : null;
        if (until !== null) wait = Math.max(wait ?? Number.NEGATIVE_INFINITY, until - clock.now());
      }
    }
    tally.polled += polled;
    tally.changed += changed;
    if (polled > 0) {
      hasAnswered = true;
      await store.noteReads(pass, polled, read);
      parts.onRead(pass, polled, changed);
    }
    failures = polled > 0 ? 0 : failures + 1;
    return { later, wait, hasKey };
  }

  /** Reads all items of `next`; false when it ended early. */
  async function readAll(next: () => Promise<Item | null>): Promise<boolean> {
    let first: Item[] = [];
    let last: Item[] = [];
    for (;;) {
      if (signal.aborted || covered === null) return false;
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
        const item = await next();
        if (item === null) break;
        items.push(item);
      }
      const isTail = items.length === 0;
      if (isTail) items.push(...last.splice(0, most));
      if (items.length === 0 && hasFound) {
        items.push(...doubtful.slice(0, most));
        doubtful = doubtful.slice(most);
      }
      if (items.length === 0) return true;
      const left = Math.max(0, callsPerDay - (await store.callsSince(pass.account, now - dayMs)));
      first.unshift(...items.splice(left));
      if (items.length === 0) {
        await waitAtMost(budgetWaitMs, covered, parts, signal);
        continue;
      }
      const { later, wait: waitMs, hasKey } = await round(items);
      if (!hasKey) {
        await settle(covered, "no-key", Number.MAX_SAFE_INTEGER);
        covered = null;
        return false;
      }
      if (failures === 0) {
        last.push(...countFailures(later));
        continue;
      }
      if (isTail && hasAnswered && waitMs === null) last = [...countFailures(later), ...last];
      else first = [...later, ...first];
      if (!signal.aborted) await waitAtMost(waitAfter(failures, waitMs, parts.random()), covered, parts, signal);
    }
  }

  const unread = unreadMessages({ store, pass, covered: pass.covered, settings: parts.settings() }, true);
  const isRead = await readAll(async () => {
    const { value } = await unread.next();
    return value === undefined ? null : { message: value.message, id: value.messageId as string, failures: 0 };
  });
  if (isRead && covered !== null) await settle(covered, null, Number.MAX_SAFE_INTEGER);
  if (signal.aborted) return null;
  await store.endPass(pass, clock.now());
  return tally;
}

/** At most until the oldest event's time is up, or until the signal is aborted. */
async function waitAtMost(ms: number, { oldest }: CoveredEvents, { clock, settings }: PassParts, signal: AbortSignal): Promise<void> {
  const least = Math.max(1, Math.min(ms, oldest + settings().giveUpAfter - clock.now()));
  await pause(clock, least, signal).catch(() => {});
}

/** In steps, each a transaction. */
async function settleAll(
  pass: HydrationPass,
  { store, clock, settings, onSettled }: PassParts,
  covered: CoveredEvents,
  reason: GiveUpReason | null,
  receivedBy: number,
): Promise<{ events: number; unknown: number }> {
  const unknown = await countUnread({ store, pass, covered, settings: settings() });
  let all = 0;
  let events: number;
  do {
    ({ events } = await store.settleCovered(pass, { reason, unknown, receivedBy }, clock.now(), settleStep));
    all += events;
    if (events > 0) onSettled(pass, reason === null ? "done" : "given-up", events);
  } while (events === settleStep);
  return { events: all, unknown };
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
