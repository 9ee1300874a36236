import { type Clock, pause } from "../event/clock.ts";
import { RelayError } from "../event/errors.ts";
import type { SendKey } from "../event/send-key.ts";
import {
  checkHeldKey,
  type Ended,
  outcomeUnknown,
  refuseOther,
  type SendAnswer,
  type SendRequest,
  type SendStore,
  type StoredSend,
} from "./keys.ts";

export interface CallSteps {
  /** Ends the call while it waits; a request on its way goes on. */
  readonly patience: AbortSignal;
  /** There is room under the caps: the request leaves once this resolves. */
  starting(): Promise<void>;
  /** The service surely did nothing; the request leaves again after a wait. */
  repeating(): Promise<void>;
}

export type CallResult<T> =
  | { readonly type: "done"; readonly value: T }
  /** The service surely did nothing; `error` is to be answered, `why` may be logged: there is nothing of people's in it. */
  | { readonly type: "not-done"; readonly error: Error; readonly why: string }
  /** Why nobody knows, in words for people and logs. */
  | { readonly type: "unknown"; readonly reason: string };

/** Something to be sent once under its key. */
export interface Order extends SendRequest {
  call(steps: CallSteps): Promise<CallResult<Extract<Ended, { end: "done" }>>>;
}

export interface Caller {
  /** Aborted when nobody waits for the answer any more. */
  readonly gone: AbortSignal;
  /** Longest wait before a request leaves, in ms. */
  readonly maxWait: number;
  /** What is answered when that is over. */
  readonly tooLong: () => Error;
}

export interface Sent {
  readonly answer: SendAnswer;
  /** The answer of a call that another request made. */
  readonly replayed: boolean;
  /** False: it was sent, but the store cannot take it in now; it will as soon as it can. */
  readonly stored: boolean;
}

export interface OnceHooks {
  /** What became of a call, and why when that was not what was wanted; not of answers that repeat the first. */
  ended(order: SendRequest, outcome: "done" | "not-done" | "unknown", tookMs: number, reason: string | null): void;
  /** The store could not take in what became of a call; it is tried again until it can. */
  notStored(order: SendRequest, end: Ended["end"], error: unknown): void;
}

export interface OnceParts {
  readonly store: SendStore;
  readonly clock: Clock;
  readonly hooks: OnceHooks;
}

interface Live {
  readonly order: Order;
  readonly patience: AbortController;
  /** Requests that wait for its answer. */
  waiting: number;
  outcome: Promise<Omit<Sent, "replayed">>;
}

/** Pause between tries to store what became of a call. */
const storeAgainMs = 1_000;
/**
 * How often one looks whether the call of another process has ended, and for how long at most: the service is given ten
 * seconds to answer, and a call that is older belongs to a process that was killed, most likely.
 */
const elsewhereMs = { look: 100, most: 15_000 };

/**
 * Makes each call once. What holds that:
 *
 * 1. No request leaves before `calling` is on the disk under its key, and a key is taken only as `beginKey` says.
 * 2. A key leaves `calling` only by an answer of the service, or by knowing that nothing was sent. Whatever else
 *    happens, the death of this process included, makes it `unknown`, and then only who was told so sends again.
 * 3. Requests with the same key join the call under way in this process; the end of one in another process they wait
 *    for. Between processes (1) holds.
 */
export function createOnce({ store, clock, hooks }: OnceParts) {
  const live = new Map<string, Live>();
  const unstored = new Set<() => void>();

  async function send(order: Order, caller: Caller): Promise<Sent> {
    const name = JSON.stringify([order.key.account, order.key.kind, order.key.key]);
    const startedAt = clock.now();
    for (;;) {
      const running = live.get(name);
      if (running !== undefined) {
        const joined = await join(running, order, caller, true);
        if (joined === elsewhere) await lookLater(caller.gone);
        else if (joined !== null) return joined;
        continue;
      }
      const held = await store.find(order.key);
      if (live.has(name)) continue;
      const isElsewhere = held?.state === "calling" && clock.now() - startedAt < elsewhereMs.most;
      if (isElsewhere) {
        refuseOther(held, order);
        await lookLater(caller.gone);
        continue;
      }
      const first = checkHeldKey(held, order);
      if (first !== null) return { answer: first, replayed: true, stored: true };
      const begun = begin(name, order, caller);
      const sent = await join(begun, order, caller, false);
      if (sent === null) throw goneError();
      if (sent !== elsewhere) return sent;
      await lookLater(caller.gone);
    }
  }

  /** Resolves after a pause; rejects when nobody waits for the answer any more. */
  function lookLater(gone: AbortSignal): Promise<void> {
    return pause(clock, elsewhereMs.look, gone).catch(() => {
      throw goneError();
    });
  }

  /** Null: it was given up because those who waited for it had gone. `elsewhere`: another process was faster, and calls. */
  async function join(running: Live, order: Order, { gone }: Caller, replayed: boolean): Promise<Sent | null | typeof elsewhere> {
    refuseOther(running.order, order);
    running.waiting += 1;
    const leave = () => {
      running.waiting -= 1;
      if (running.waiting === 0) running.patience.abort(goneReason);
    };
    if (gone.aborted) leave();
    else gone.addEventListener("abort", leave, { once: true });
    try {
      return { ...(await running.outcome), replayed };
    } catch (error) {
      if (error === goneReason) return null;
      if (error === elsewhere) return elsewhere;
      throw error;
    } finally {
      gone.removeEventListener("abort", leave);
    }
  }

  function begin(name: string, order: Order, { maxWait, tooLong }: Caller): Live {
    const patience = new AbortController();
    const endWait = clock.after(maxWait, () => patience.abort(tooLong()));
    const forget = () => void live.delete(name);
    const begun: Live = { order, patience, waiting: 0, outcome: carryOut(order, patience.signal, forget).finally(endWait) };
    // Whoever began it looks at it too, but a joined one may be all that is left.
    begun.outcome.catch(() => {});
    live.set(name, begun);
    return begun;
  }

  async function carryOut(order: Order, patience: AbortSignal, forget: () => void): Promise<Omit<Sent, "replayed">> {
    /** The key is `calling` in the store, and a request may have left. */
    let isHeld = false;
    /** Nobody knows whether the key is `calling`, and nothing has left. */
    let mayBeTaken = false;
    let mayBeDone = false;
    let startedAt = clock.now();
    const steps: CallSteps = {
      patience,
      async starting() {
        startedAt = clock.now();
        const { fingerprint, resend, about } = order;
        const held = await store.begin(order.key, { fingerprint, resend, about, at: startedAt }).catch((error: unknown) => {
          mayBeTaken = isOpen(error);
          throw error;
        });
        if (held !== null) throw new Taken(held);
        isHeld = true;
        mayBeDone = true;
      },
      async repeating() {
        mayBeDone = false;
        await store.settle(order.key, { end: "not-done" });
        isHeld = false;
      },
    };
    const letGo = async (ended: Ended): Promise<boolean> => {
      if (isHeld) return conclude(order, ended, forget);
      forget();
      return true;
    };

    // The key must be in `live` before anything else happens.
    await null;
    let result: Awaited<ReturnType<Order["call"]>>;
    try {
      result = await order.call(steps);
    } catch (error) {
      if (error instanceof Taken) {
        forget();
        if (error.held.state === "calling") {
          refuseOther(error.held, order);
          throw elsewhere;
        }
        const first = checkHeldKey(error.held, order);
        if (first === null) throw new RelayError("conflict", "the key changed hands just now; ask again");
        return { answer: first, stored: true };
      }
      if (!mayBeDone) {
        // The store is away; whoever waits is told so now. The key would be held for as long as this process lives.
        if (mayBeTaken) concludeLater(order.key, { end: "not-done" }, forget);
        else await letGo({ end: "not-done" });
        throw error;
      }
      result = { type: "unknown", reason: "the relay failed in the midst of it" };
    }
    const reason = result.type === "unknown" ? result.reason : result.type === "not-done" ? result.why : null;
    hooks.ended(order, result.type, clock.now() - startedAt, reason);
    switch (result.type) {
      case "done":
        return { answer: result.value.answer, stored: await letGo(result.value) };
      case "not-done":
        await letGo({ end: "not-done" });
        throw result.error;
      case "unknown":
        await letGo({ end: "unknown" });
        throw outcomeUnknown(order.key, { startedAt, tries: order.resend + 1, about: order.about, reason: result.reason });
    }
  }

  /** Stores what became of a call, now or as soon as that is possible; until then the key stays with this process. */
  async function conclude(order: Order, ended: Ended, forget: () => void): Promise<boolean> {
    try {
      await store.settle(order.key, ended);
    } catch (error) {
      hooks.notStored(order, ended.end, error);
      concludeLater(order.key, ended, forget);
      return false;
    }
    forget();
    return true;
  }

  function concludeLater(key: SendKey, ended: Ended, forget: () => void): void {
    const cancel = clock.after(storeAgainMs, () => {
      unstored.delete(cancel);
      store.settle(key, ended).then(forget, () => concludeLater(key, ended, forget));
    });
    unstored.add(cancel);
  }

  return {
    send,
    /** Resolves when the calls under way have ended and are stored; what could not be stored until now is given up. */
    async close(): Promise<void> {
      await Promise.allSettled([...live.values()].map(({ outcome }) => outcome));
      for (const cancel of unstored) cancel();
    },
  };
}

/** Whether what failed may have been done all the same: it was sent, and no answer came. */
function isOpen(error: unknown): boolean {
  return error instanceof Error && (error as { mayBeDone?: unknown }).mayBeDone === true;
}

const goneReason = new Error("nobody waits for it any more");
/** Another process holds the key, and calls. */
const elsewhere = Symbol("elsewhere");

function goneError(): RelayError {
  return new RelayError("request_timeout", "the caller has gone; nothing was sent");
}

/** Somebody else took the key. */
class Taken extends Error {
  readonly held: StoredSend;

  constructor(held: StoredSend) {
    super("the key is taken");
    this.held = held;
  }
}
