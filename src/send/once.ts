import { createHash } from "node:crypto";
import type { Clock } from "../model/clock.ts";
import { RelayError } from "../model/errors.ts";
import type {
  SendAnswer,
  SendClaim,
  SendEnd,
  SendKey,
  SendKind,
  SendResult,
  StoredSend,
} from "../model/send.ts";

export interface CallSteps {
  /** A request in flight continues. */
  readonly signal: AbortSignal;
  /** The request is sent once this resolves. */
  starting(): Promise<void>;
  /** The service did nothing. */
  repeating(): Promise<void>;
}

export type CallResult =
  | { readonly type: "done"; readonly value: SendDone }
  /** The service did nothing. `why`: for logs, without personal data. */
  | { readonly type: "not-done"; readonly error: Error; readonly why: string }
  | { readonly type: "unknown"; readonly reason: string };

export type SendDone = Extract<SendEnd, { end: "done" }>;

export interface Order extends SendRequest {
  /** Rejects with what the steps rejected with, or with an unexpected error. */
  call(steps: CallSteps): Promise<CallResult>;
}

export interface Caller {
  readonly disconnected: AbortSignal;
  /** Before the request is sent, in ms. */
  readonly maxWait: number;
  readonly tooLong: () => Error;
}

export interface OnceHooks {
  /** Not after replayed answers. `reason`: null for a call that is done. */
  ended(
    order: SendRequest,
    outcome: "done" | "not-done" | "unknown",
    tookMs: number,
    reason: string | null,
  ): void;
  notStored(order: SendRequest, end: SendEnd["end"], error: unknown): void;
}

interface OnceParts {
  readonly store: SendStore;
  readonly clock: Clock;
  readonly hooks: OnceHooks;
}

interface Live {
  readonly order: Order;
  readonly outcome: Promise<Omit<SendResult, "replayed">>;
  isOver: boolean;
}

const storeAgainMs = 1_000;

/**
 * Makes each call once, by three rules:
 *
 * 1. No request is sent before `calling` is stored under its key, and a key is claimed only by the
 *    rules of `beginKey`.
 * 2. A key leaves `calling` only through an answer of the service, or when nothing was sent.
 *    Everything else, including the death of this process, makes it `unknown`. Then only a client
 *    that received `outcome_unknown` can send again.
 * 3. A request whose key is in flight, here or in another process, gets `conflict` with
 *    `Retry-After`.
 */
export function createOnce({ store, clock, hooks }: OnceParts) {
  const live = new Map<string, Live>();
  const outcomes = createOutcomes({ store, clock, hooks });

  async function send(order: Order, caller: Caller): Promise<SendResult> {
    const name = JSON.stringify([order.key.account, order.key.kind, order.key.key]);
    if (!live.has(name)) {
      const first = checkHeldKey(await store.find(order.key), order);
      if (first !== null) return { answer: first, replayed: true, stored: true };
    }
    const running = live.get(name);
    if (running === undefined) return { ...(await begin(name, order, caller)), replayed: false };
    refuseOther(running.order, order);
    if (!running.isOver) throw inFlight(order.key);
    return { ...(await running.outcome), replayed: true };
  }

  async function begin(
    name: string,
    order: Order,
    { maxWait, tooLong, disconnected }: Caller,
  ): Promise<Omit<SendResult, "replayed">> {
    const late = new AbortController();
    const endWait = clock.after(maxWait, () => late.abort(tooLong()));
    const signal = AbortSignal.any([late.signal, disconnected]);
    const outcome = carryOut(order, signal, () => void live.delete(name));
    const begun: Live = { order, outcome, isOver: false };
    live.set(name, begun);
    try {
      return await outcome;
    } catch (error) {
      if (!disconnected.aborted || error !== disconnected.reason) throw error;
      throw new RelayError("request_timeout", "the client disconnected; nothing was sent");
    } finally {
      endWait();
      begun.isOver = true;
    }
  }

  async function carryOut(
    order: Order,
    signal: AbortSignal,
    forget: () => void,
  ): Promise<Omit<SendResult, "replayed">> {
    /** The key is `calling` in the store, and a request may have been sent. */
    let isHeld = false;
    /** It is unknown whether the key is `calling`, and nothing was sent. */
    let mayBeTaken = false;
    let mayBeDone = false;
    let taken = null as StoredSend | null;
    let startedAt = clock.now();
    const steps: CallSteps = {
      signal,
      async starting() {
        startedAt = clock.now();
        const { fingerprint, resend, about } = order;
        const held = await store
          .begin(order.key, { fingerprint, resend, about, at: startedAt })
          .catch((error: unknown) => {
            // It was sent and not answered.
            mayBeTaken =
              error instanceof Error && (error as { mayBeDone?: unknown }).mayBeDone === true;
            throw error;
          });
        if (held !== null) {
          taken = held;
          throw inFlight(order.key);
        }
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
      if (isHeld) return outcomes.store(order, ended, forget);
      forget();
      return true;
    };

    // The key must be in `live` before anything else happens.
    await null;
    let result: CallResult;
    try {
      result = await order.call(steps);
    } catch (error) {
      if (taken !== null) {
        forget();
        const first = checkHeldKey(taken, order);
        if (first === null) throw error;
        return { answer: first, stored: true };
      }
      if (!mayBeDone) {
        // The store is unavailable: report it now, and release the key later. Otherwise this
        // process would hold it for life.
        if (mayBeTaken) outcomes.storeLater(order.key, { end: "not-done" }, forget);
        else await release({ end: "not-done" });
        throw error;
      }
      result = { type: "unknown", reason: "the relay failed during the call" };
    }
    const reason =
      result.type === "unknown" ? result.reason : result.type === "not-done" ? result.why : null;
    hooks.ended(order, result.type, clock.now() - startedAt, reason);
    switch (result.type) {
      case "done":
        return { answer: result.value.answer, stored: await release(result.value) };
      case "not-done":
        await release({ end: "not-done" });
        throw result.error;
      case "unknown":
        await release({ end: "unknown" });
        throw outcomeUnknown(order.key, {
          startedAt,
          attempts: order.resend + 1,
          about: order.about,
          reason: result.reason,
        });
    }
  }

  return {
    send,
    /** Drops outcomes that could not be stored so far. */
    async close(): Promise<void> {
      await Promise.allSettled([...live.values()].map(({ outcome }) => outcome));
      outcomes.drop();
    },
  };
}

/** Until `stored` is called, this process holds the key. */
function createOutcomes({ store, clock, hooks }: OnceParts) {
  const unstored = new Set<() => void>();

  function storeLater(key: SendKey, ended: SendEnd, stored: () => void): void {
    const cancel = clock.after(storeAgainMs, () => {
      unstored.delete(cancel);
      store.settle(key, ended).then(stored, () => storeLater(key, ended, stored));
    });
    unstored.add(cancel);
  }

  return {
    storeLater,
    /** False: not stored yet. */
    async store(order: Order, ended: SendEnd, stored: () => void): Promise<boolean> {
      try {
        await store.settle(order.key, ended);
      } catch (error) {
        hooks.notStored(order, ended.end, error);
        storeLater(order.key, ended, stored);
        return false;
      }
      stored();
      return true;
    },
    drop(): void {
      for (const cancel of unstored) cancel();
    },
  };
}

/** A resolved step is durable and visible to other processes. */
export interface SendStore {
  /** A call of a dead process counts as one of unknown outcome. */
  find(key: SendKey): Promise<StoredSend | null>;
  /**
   * Null on success, else what holds the key. After an error with `mayBeDone`, the key may be
   * claimed.
   */
  begin(key: SendKey, claim: SendClaim): Promise<StoredSend | null>;
  /** Registers a successful call in the same step. Idempotent. */
  settle(key: SendKey, ended: SendEnd): Promise<void>;
}

interface Words {
  readonly what: string;
  readonly done: string;
  readonly check: string;
  readonly key: string;
  /** Of `details`. */
  readonly field: string;
}

const words: Record<SendKind, Words> = {
  message: {
    what: "message",
    done: "the message was sent",
    check: "check whether the message appears in the chat",
    key: "idempotency key",
    field: "idempotencyKey",
  },
  run: {
    what: "run",
    done: "the run was started",
    check: "check at the service whether the automation ran for this phone",
    key: "reference",
    field: "reference",
  },
};

export interface SendRequest {
  readonly key: SendKey;
  readonly fingerprint: string;
  readonly about: string;
  readonly resend: number;
}

/**
 * Null when the call may start. Throws `idempotency_conflict`, `outcome_unknown`, or `conflict`
 * while the call is in flight.
 */
function checkHeldKey(held: StoredSend | null, request: SendRequest): SendAnswer | null {
  if (held === null) return null;
  refuseOther(held, request);
  if (held.state === "done") return held.answer;
  if (held.state === "calling") throw inFlight(request.key);
  if (held.attempts === request.resend) return null;
  throw outcomeUnknown(request.key, { ...held, reason: null });
}

export function inFlight({ kind }: SendKey): RelayError {
  return new RelayError(
    "conflict",
    `a call under this ${words[kind].key} is in flight; retry`,
    undefined,
    { retryAfterMs: 1_000 },
  );
}

/** Throws `idempotency_conflict`. */
function refuseOther(
  held: Pick<StoredSend, "fingerprint" | "about"> & { answer?: SendAnswer | null },
  request: SendRequest,
): void {
  if (held.fingerprint === request.fingerprint) return;
  const { key, what, field } = words[request.key.kind];
  const { answer = null } = held;
  const runId = answer?.["runId"];
  throw new RelayError(
    "idempotency_conflict",
    request.key.kind === "message"
      ? `this ${key} belongs to another ${what}`
      : `this ${key} belongs to another ${what}: ${typeof runId === "string" ? `${runId} of ` : ""}the automation ${held.about}, not this one of ${request.about}`,
    {
      [field]: request.key.key,
      first: { about: held.about, ...(typeof runId === "string" ? { runId } : {}) },
      given: { about: request.about },
    },
  );
}

/** `reason`: why this call's outcome is unknown; null: an earlier call's is. */
function outcomeUnknown(
  key: SendKey,
  held: {
    readonly startedAt: number;
    readonly attempts: number;
    readonly about: string;
    readonly reason: string | null;
  },
): RelayError {
  const { done, check, field } = words[key.kind];
  const attemptedAt = new Date(held.startedAt).toISOString();
  const why = held.reason === null ? `the call of ${attemptedAt} got no answer` : held.reason;
  return new RelayError("outcome_unknown", `it is unknown whether ${done}: ${why}; ${check}`, {
    [field]: key.key,
    attemptedAt,
    attempts: held.attempts,
    about: held.about,
    justNow: held.reason !== null,
    check,
    resend: held.attempts,
  });
}

/** Whatever the order of the keys. */
export function fingerprintOf(body: unknown): string {
  return createHash("sha256").update(canonical(body)).digest("hex");
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const entries = Object.entries(value)
    .filter(([, item]) => item !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${canonical(item)}`).join(",")}}`;
}
