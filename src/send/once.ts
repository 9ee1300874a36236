import { type Clock, pause } from "../model/clock.ts";
import { RelayError } from "../model/errors.ts";
import type { SendEnd, SendKey, SendResult, StoredSend } from "../model/send.ts";
import { checkHeldKey, outcomeUnknown, refuseOther, type SendRequest, type SendStore } from "./keys.ts";

export interface CallSteps {
  /** Ends the call while it waits; a request in flight continues. */
  readonly signal: AbortSignal;
  /** There is room under the caps: the request is sent once this resolves. */
  starting(): Promise<void>;
  /** The service certainly did nothing; the request is sent again after a wait. */
  repeating(): Promise<void>;
}

export type CallResult<T> =
  | { readonly type: "done"; readonly value: T }
  /** The service certainly did nothing. `error`: for the caller; `why`: for logs, without personal data. */
  | { readonly type: "not-done"; readonly error: Error; readonly why: string }
  /** `reason`: for people and logs. */
  | { readonly type: "unknown"; readonly reason: string };

/** A call to make once under its key. */
export interface Order extends SendRequest {
  call(steps: CallSteps): Promise<CallResult<Extract<SendEnd, { end: "done" }>>>;
}

export interface Caller {
  /** Aborted when the client disconnects. */
  readonly disconnected: AbortSignal;
  /** Longest wait before the request is sent, in ms. */
  readonly maxWait: number;
  /** The error after that. */
  readonly tooLong: () => Error;
}

export interface OnceHooks {
  /** After each call, but not after replayed answers. `reason`: null for a call that is done. */
  ended(order: SendRequest, outcome: "done" | "not-done" | "unknown", tookMs: number, reason: string | null): void;
  /** The store could not save the outcome of a call. The relay retries until it can. */
  notStored(order: SendRequest, end: SendEnd["end"], error: unknown): void;
}

export interface OnceParts {
  readonly store: SendStore;
  readonly clock: Clock;
  readonly hooks: OnceHooks;
}

interface Live {
  readonly order: Order;
  readonly abort: AbortController;
  /** Requests that wait for its answer. */
  waiting: number;
  outcome: Promise<Omit<SendResult, "replayed">>;
}

/** Pause between attempts to store an outcome. */
const storeAgainMs = 1_000;
/**
 * How often and for how long to check whether another process has ended its call. The service has ten seconds to answer, so
 * an older call most likely belongs to a process that was killed.
 */
const elsewhereMs = { look: 100, most: 15_000 };

/**
 * Makes each call once, by three rules:
 *
 * 1. No request is sent before `calling` is stored under its key, and a key is claimed only by the rules of `beginKey`.
 * 2. A key leaves `calling` only through an answer of the service, or when nothing was sent. Everything else, including the
 *    death of this process, makes it `unknown`. Then only a client that received `outcome_unknown` can send again.
 * 3. Requests with the same key join the call in flight in this process, and wait for the end of one in another process.
 *    Between processes, rule 1 applies.
 */
export function createOnce({ store, clock, hooks }: OnceParts) {
  const live = new Map<string, Live>();
  const unstored = new Set<() => void>();

  async function send(order: Order, caller: Caller): Promise<SendResult> {
    const name = JSON.stringify([order.key.account, order.key.kind, order.key.key]);
    const startedAt = clock.now();
    for (;;) {
      const running = live.get(name);
      if (running !== undefined) {
        const joined = await join(running, order, caller, true);
        if (joined === elsewhere) await checkLater(caller.disconnected);
        else if (joined !== null) return joined;
        continue;
      }
      const held = await store.find(order.key);
      if (live.has(name)) continue;
      const isElsewhere = held?.state === "calling" && clock.now() - startedAt < elsewhereMs.most;
      if (isElsewhere) {
        refuseOther(held, order);
        await checkLater(caller.disconnected);
        continue;
      }
      const first = checkHeldKey(held, order);
      if (first !== null) return { answer: first, replayed: true, stored: true };
      const begun = begin(name, order, caller);
      const sent = await join(begun, order, caller, false);
      if (sent === null) throw disconnectedError();
      if (sent !== elsewhere) return sent;
      await checkLater(caller.disconnected);
    }
  }

  /** Resolves after a pause; rejects when the client disconnects. */
  function checkLater(disconnected: AbortSignal): Promise<void> {
    return pause(clock, elsewhereMs.look, disconnected).catch(() => {
      throw disconnectedError();
    });
  }

  /** Null: the call ended because all its clients disconnected. `elsewhere`: another process claimed the key and calls. */
  async function join(
    running: Live,
    order: Order,
    { disconnected }: Caller,
    replayed: boolean,
  ): Promise<SendResult | null | typeof elsewhere> {
    refuseOther(running.order, order);
    running.waiting += 1;
    const leave = () => {
      running.waiting -= 1;
      if (running.waiting === 0) running.abort.abort(allDisconnected);
    };
    if (disconnected.aborted) leave();
    else disconnected.addEventListener("abort", leave, { once: true });
    try {
      return { ...(await running.outcome), replayed };
    } catch (error) {
      if (error === allDisconnected) return null;
      if (error === elsewhere) return elsewhere;
      throw error;
    } finally {
      disconnected.removeEventListener("abort", leave);
    }
  }

  function begin(name: string, order: Order, { maxWait, tooLong }: Caller): Live {
    const abort = new AbortController();
    const endWait = clock.after(maxWait, () => abort.abort(tooLong()));
    const forget = () => void live.delete(name);
    const begun: Live = { order, abort, waiting: 0, outcome: carryOut(order, abort.signal, forget).finally(endWait) };
    // The request that started it awaits it too, but may have left already.
    begun.outcome.catch(() => {});
    live.set(name, begun);
    return begun;
  }

  async function carryOut(order: Order, signal: AbortSignal, forget: () => void): Promise<Omit<SendResult, "replayed">> {
    /** The key is `calling` in the store, and a request may have been sent. */
    let isHeld = false;
    /** It is unknown whether the key is `calling`, and nothing was sent. */
    let mayBeTaken = false;
    let mayBeDone = false;
    let startedAt = clock.now();
    const steps: CallSteps = {
      signal,
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
    const release = async (ended: SendEnd): Promise<boolean> => {
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
        if (first === null) throw new RelayError("conflict", "another request has just claimed the key; retry");
        return { answer: first, stored: true };
      }
      if (!mayBeDone) {
        // The store is unavailable: report it now, and release the key later. Otherwise this process would hold it for life.
        if (mayBeTaken) concludeLater(order.key, { end: "not-done" }, forget);
        else await release({ end: "not-done" });
        throw error;
      }
      result = { type: "unknown", reason: "the relay failed during the call" };
    }
    const reason = result.type === "unknown" ? result.reason : result.type === "not-done" ? result.why : null;
    hooks.ended(order, result.type, clock.now() - startedAt, reason);
    switch (result.type) {
      case "done":
        return { answer: result.value.answer, stored: await release(result.value) };
      case "not-done":
        await release({ end: "not-done" });
        throw result.error;
      case "unknown":
        await release({ end: "unknown" });
        throw outcomeUnknown(order.key, { startedAt, attempts: order.resend + 1, about: order.about, reason: result.reason });
    }
  }

  /** Stores the outcome now or as soon as possible; until then this process holds the key. */
  async function conclude(order: Order, ended: SendEnd, forget: () => void): Promise<boolean> {
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

  function concludeLater(key: SendKey, ended: SendEnd, forget: () => void): void {
    const cancel = clock.after(storeAgainMs, () => {
      unstored.delete(cancel);
      store.settle(key, ended).then(forget, () => concludeLater(key, ended, forget));
    });
    unstored.add(cancel);
  }

  return {
    send,
    /** Resolves when the calls in flight have ended and are stored. Drops outcomes that could not be stored so far. */
    async close(): Promise<void> {
      await Promise.allSettled([...live.values()].map(({ outcome }) => outcome));
      for (const cancel of unstored) cancel();
    },
  };
}

/** Whether a failed step may have taken effect: it was sent and not answered. */
function isOpen(error: unknown): boolean {
  return error instanceof Error && (error as { mayBeDone?: unknown }).mayBeDone === true;
}

const allDisconnected = new Error("all clients disconnected");
/** Another process holds the key and calls. */
const elsewhere = Symbol("elsewhere");

function disconnectedError(): RelayError {
  return new RelayError("request_timeout", "the client disconnected; nothing was sent");
}

/** Another request claimed the key. */
class Taken extends Error {
  readonly held: StoredSend;

  constructor(held: StoredSend) {
    super("the key is taken");
    this.held = held;
  }
}
