import type { Clock, SteadyTime } from "../../event/clock.ts";
import { uuidv7 } from "../../event/ids.ts";
import type { CallCap } from "../admission.ts";
import { type Caps, quotasOf } from "./caps.ts";
import type { Learned } from "./learned.ts";
import { createSharedLearned } from "./learned.ts";
import type { SharedAnswer, SharedAsk, SharedCaps, SharedEnd } from "./shared-port.ts";
import { type CallKind, callKinds, type Slot, type SlotEnd, type Slots } from "./slots.ts";

/** The part of an account that processes may have in common. */
export interface SharedAccount {
  readonly slots: Slots;
  readonly learned: Learned;
  /** False: slots cannot be had now, and nobody is to wait for any. */
  isKnown(): boolean;
  /** Somebody wants to see it: what it shows is to be of the last seconds. */
  refresh(): void;
  /** No call comes any more: what could not be told by now is left to come back by itself. */
  close(): void;
}

/** Calls that wait here and could go if there were slots, and how many of them at once. */
export type Wanted = Pick<SharedAsk, "wants" | "room">;

interface SharedAccountParts {
  readonly shared: SharedCaps;
  readonly clock: Clock;
  readonly time: SteadyTime;
  readonly graceMs: number;
  readonly plan: string;
  readonly caps: Caps;
  /** Whether an answer has shown that the key is good. */
  readonly isProven: () => boolean;
  readonly wanted: () => Wanted;
  /** Something is known or granted that was not before: who may go now goes. */
  readonly changed: () => void;
  /** What is shared cannot be reached. */
  readonly lost: () => void;
}

/**
 * Calls under way at once in all processes together, before and after an answer has shown that the key is good: below the
 * 20 bad calls of a minute that block an address, for the same reason as in one process.
 */
const atOnce = { unproven: { all: 5, others: 4 }, proven: { all: 16, others: 12 } };
/** After a failure the next try waits so long; until then calls are refused at once. */
const retryMs = 1_000;
/** Slots of calls that take long are renewed so often; one that is not is believed lost after a minute, and then counts as such a call does. */
const renewMs = 20_000;
/** Slots that were granted longer ago than this are given back unused: their minute of belief runs. */
const staleMs = 30_000;
/** By then the slot of a call has come back by itself, and its end is no news. */
const forgetMs = 180_000;
/** What is shown is no older. */
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
 * A process asks for slots when, and for as many as, calls wait that could go; one step grants what there is for all
 * kinds at once, higher priorities and older waits first, also those of other processes (`shared-port.ts`). A slot that is
 * granted is used in the same turn of the event loop or given back, so that idle processes hold none, and nothing is let
 * go on what is not known. Each answer brings what other processes learned, before its slots are used: so no call is let
 * go against a stop that was known when its slot was granted. What is learned here holds here at once.
 *
 * Where the step fails, nothing is let go: calls under way go on, those that wait are turned away, and so is who comes
 * within the next second; then the next one tries. Slots of a process that died come back by themselves: a minute after
 * it was last heard of its calls are taken for lost, and count as long as those.
 */
export function createSharedAccount(parts: SharedAccountParts): SharedAccount {
  const { shared, clock, time, graceMs, wanted, changed, lost } = parts;
  const holder = uuidv7(clock.now());
  const learned = createSharedLearned(parts.plan, () => void step());
  const free: OwnSlot[][] = callKinds.map(() => []);
  const underWay = new Set<OwnSlot>();
  let ended: { readonly id: string; readonly kind: number | null; readonly how: SlotEnd; readonly at: number }[] = [];
  /** When another look is worth it, by kind. */
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

  /** One at a time; what comes meanwhile goes with the next. */
  async function step(): Promise<void> {
    again = true;
    if (isStepping) return;
    isStepping = true;
    // What the same turn of the event loop brings goes along.
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
    const renewed = [...underWay].filter((slot) => at - slot.seenAt >= renewMs / 2);
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
        ...learned.told(),
      });
    } catch {
      // Whether the slots were granted nobody knows; unused they are in either case.
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
    if (!learned.heard(answer, now)) again = true;
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

  /** What is still to be told, and slots that are to be renewed, do not wait for a call. */
  function plan(): void {
    cancelLater?.();
    const hasNews = ended.length > 0 || learned.hasNews();
    cancelLater = !isClosed && (hasNews || underWay.size > 0) ? clock.after(hasNews ? retryMs : renewMs, () => void step()) : null;
  }

  const slots: Slots = {
    readyAt(kind, now) {
      const index = indexOf(kind);
      if ((free[index]?.length ?? 0) > 0) return now;
      const at = lookAt[index] ?? 0;
      if (at > now) return at;
      void step();
      // The step's answer is what is waited for.
      return Number.POSITIVE_INFINITY;
    },
    take(kind) {
      const slot = free[indexOf(kind)]?.shift() as OwnSlot;
      underWay.add(slot);
      return slot;
    },
    end(slot, now, how) {
      const own = slot as OwnSlot;
      underWay.delete(own);
      ended.push({ id: own.id, kind: own.index, how, at: now });
      void step();
    },
    newest: learned.newest,
    // Slots of other processes are not ours to count anew.
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
  const { ask, poll } = quotasOf(caps);
  return { asks: ask, polls: poll };
}
