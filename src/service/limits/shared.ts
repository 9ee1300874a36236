import type { Clock, SteadyTime } from "../../model/clock.ts";
import { uuidv7 } from "../../model/ids.ts";
import type { SharedAnswer, SharedCaps, SharedEnd, SharedStep, SlotEnd } from "../../model/shared-caps.ts";
import type { CallCap } from "../admission.ts";
import { createSharedLearned, type Learned } from "./account.ts";
import { type Caps, quotasOf } from "./caps.ts";

import { type CallKind, callKinds, type Slot, type Slots } from "./slots.ts";

/** The part of an account that its processes may share. */
export interface SharedAccount {
  readonly slots: Slots;
  readonly learned: Learned;
  /** False: no slots are available now, and calls must not wait for any. */
  isKnown(): boolean;
  /** Updates the view if it is older than a few seconds. */
  refresh(): void;
  /** Resolves when all that this process learned is stored, and what others stored is known; false: it may not be. */
  stored(): Promise<boolean>;
  /** No more calls follow: slots that could not be returned come back by themselves. */
  close(): void;
}

/** Calls that wait only for slots, and how many of them may be in flight at once. */
export type Wanted = Pick<SharedStep, "wants" | "room">;

interface SharedAccountParts {
  readonly shared: SharedCaps;
  readonly clock: Clock;
  readonly time: SteadyTime;
  readonly graceMs: number;
  readonly plan: string;
  readonly caps: Caps;
  /** Whether an answer has shown that the key is valid. */
  readonly isProven: () => boolean;
  readonly wanted: () => Wanted;
  /** The state changed or slots were granted: dispatches what is ready. */
  readonly changed: () => void;
  /** The shared store is unavailable. */
  readonly lost: () => void;
}

/**
 * Calls in flight in all processes together, before and after an answer has shown that the key is valid. Below the 20 bad
 * calls of a minute that block an address, as in one process.
 */
const atOnce = { unproven: { all: 5, others: 4 }, proven: { all: 16, others: 12 } };
/** The wait after a failure; until then, calls are refused at once. */
const retryMs = 1_000;
/** How often slots of long calls are renewed. Without renewal, a slot counts as lost after a minute. */
const renewMs = 20_000;
/** Slots granted longer ago than this are returned unused, because their minute has begun. */
const staleMs = 30_000;
/** By then, a call's slot has come back by itself, so its end need not be reported. */
const forgetMs = 180_000;
/** The maximum age of the view. */
const freshMs = 5_000;

interface OwnSlot extends Slot {
  readonly id: string;
  readonly index: number;
  /** Steady ms at which it was granted or renewed. */
  seenAt: number;
}

/**
 * An account whose slots, stops and holds are shared by several processes.
 *
 * A process requests one slot per waiting call that could go. One step grants slots for all kinds at once, higher priorities
 * and older waits first, across processes (`SharedCaps`). A granted slot is used in the same turn of the event loop or
 * returned, so that idle processes hold none. Each answer carries what other processes learned, which is applied before
 * its slots are used: no call is dispatched against a stop that was known when its slot was granted. What this process
 * learns applies here at once.
 *
 * While the step fails, nothing is dispatched: calls in flight continue, waiting calls are rejected, and so are new ones
 * within the next second. Slots of a dead process come back by themselves: a minute after its last sign, its calls count
 * as lost.
 */
export function createSharedAccount(parts: SharedAccountParts): SharedAccount {
  const { shared, clock, time, graceMs, wanted, changed, lost } = parts;
  const holder = uuidv7(clock.now());
  const learned = createSharedLearned(parts.plan, () => void step());
  const free: OwnSlot[][] = callKinds.map(() => []);
  const inFlight = new Set<OwnSlot>();
  let ended: { readonly id: string; readonly kind: number | null; readonly how: SlotEnd; readonly at: number }[] = [];
  /** When to look again, by kind. */
  let lookAt = callKinds.map(() => 0);
  let caps = parts.caps;
  let born = "";
  let nextId = 1;
  let used: Caps = { requests: 0, messages: 0 };
  let lookedAt = Number.NEGATIVE_INFINITY;
  let knownFrom = Number.NEGATIVE_INFINITY;
  let isStepping = false;
  let again = false;
  let cancelLater: (() => void) | null = null;
  let isClosed = false;

  const indexOf = ({ cap, priority }: CallKind): number => callKinds.findIndex((kind) => kind.cap === cap && kind.priority === priority);

  /** One step at a time; changes meanwhile go with the next. */
  async function step(): Promise<void> {
    again = true;
    if (isStepping) return;
    isStepping = true;
    // Includes changes of the same turn of the event loop.
    await Promise.resolve();
    while (again && time.now() >= knownFrom) {
      again = false;
      await stepOnce();
    }
    isStepping = false;
    plan();
  }

  async function stepOnce(): Promise<void> {
    const at = time.now();
    const telling = ended.filter((end) => at - end.at < forgetMs);
    ended = [];
    const renewed = [...inFlight].filter((slot) => at - slot.seenAt >= renewMs / 2);
    const { wants, room } = wanted();
    const firstId = nextId;
    const most = Math.min(
      room.all,
      wants.reduce((sum, count) => sum + count, 0),
    );
    nextId += most;
    const { asks, polls } = limitsOf(caps);
    let answer: SharedAnswer;
    try {
      answer = await shared.step({
        holder,
        born,
        limits: { requests: caps.requests, messages: caps.messages, asks, polls },
        atOnce: parts.isProven() ? atOnce.proven : atOnce.unproven,
        graceMs,
        wants,
        room,
        firstId,
        ended: telling.map(({ at: endedAt, ...end }): SharedEnd => ({ ...end, ageMs: at - endedAt })),
        renewed: renewed.map(({ id, index }) => ({ id, kind: index })),
        ...learned.toSend(),
      });
    } catch {
      // Whether the slots were granted is unknown; they are unused in either case.
      const unsure = Array.from({ length: most }, (_, n) => ({ id: `${holder}:${firstId + n}`, kind: null, at }));
      ended = [...telling, ...unsure.map((one) => ({ ...one, how: "not-sent" as const })), ...ended];
      knownFrom = time.now() + retryMs;
      learned.failed();
      lost();
      return;
    }
    take(answer, at);
    for (const slot of renewed) slot.seenAt = at;
  }

  function take(answer: SharedAnswer, askedAt: number): void {
    const now = time.now();
    ({ born, used } = answer);
    lookedAt = now;
    if (!learned.receive(answer, now)) again = true;
    const isStale = now - askedAt > staleMs;
    for (const { id, kind: index, number } of answer.granted) {
      const kind = callKinds[index] as CallKind;
      if (isStale) ended.push({ id, kind: index, how: "not-sent", at: now });
      else free[index]?.push({ kind, number, id, index, seenAt: askedAt });
    }
    lookAt = answer.waitMs.map((ms) => (ms > 0 ? now + ms : 0));
    changed();
    for (const unused of free) {
      for (const { id, index } of unused) ended.push({ id, kind: index, how: "not-sent", at: now });
      unused.length = 0;
    }
    if (ended.length > 0) again = true;
  }

  /** Reports and renewals do not wait for the next call. */
  function plan(): void {
    cancelLater?.();
    const hasNews = ended.length > 0 || learned.hasNews();
    cancelLater = !isClosed && (hasNews || inFlight.size > 0) ? clock.after(hasNews ? retryMs : renewMs, () => void step()) : null;
  }

  const slots: Slots = {
    readyAt(kind, now) {
      const index = indexOf(kind);
      if ((free[index]?.length ?? 0) > 0) return now;
      const at = lookAt[index] ?? 0;
      if (at > now) return at;
      void step();
      // The step's answer triggers the next look.
      return Number.POSITIVE_INFINITY;
    },
    take(kind) {
      const slot = free[indexOf(kind)]?.shift() as OwnSlot;
      inFlight.add(slot);
      return slot;
    },
    end(slot, now, how) {
      const own = slot as OwnSlot;
      inFlight.delete(own);
      ended.push({ id: own.id, kind: own.index, how, at: now });
      void step();
    },
    newest: learned.newest,
    // The shared store already counts the calls of other processes.
    count: () => {},
    setCaps(next) {
      caps = next;
    },
    used: (cap: CallCap) => used[cap],
    limit: (cap: CallCap) => caps[cap],
  };

  return {
    slots,
    learned,
    isKnown: () => time.now() >= knownFrom,
    stored: async () => true,
    refresh() {
      if (time.now() - lookedAt >= freshMs) void step();
    },
    close() {
      isClosed = true;
      cancelLater?.();
    },
  };
}

function limitsOf(caps: Caps): { asks: number; polls: number } {
  const { interactive, poll } = quotasOf(caps);
  return { asks: interactive, polls: poll };
}
