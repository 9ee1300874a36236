import { onlyAccount, type Settings } from "../config/schema.ts";
import type { SendCaller, SendingPort } from "../control/sending.ts";
import { type ErrorCode, RelayError } from "../model/errors.ts";
import { uuidv7 } from "../model/ids.ts";
import { refuseUnknown } from "../model/nearest.ts";
import type { OfAccounts } from "../model/queries.ts";
import { type Caller, createOnce, fingerprintOf, type OnceHooks, type Order, type SendDone } from "../send/once.ts";
import type { ServiceAccounts } from "../service/accounts.ts";
import type { CallOptions, ServiceClient } from "../service/client.ts";
import type { CallCap, CallOperation } from "../service/endpoints.ts";
import { ServiceError } from "../service/errors.ts";
import type { LimiterState } from "../service/limits/limiter.ts";
import { coveringReasons, type QuotaReason } from "../service/limits/stops.ts";
import type { Background } from "./store.ts";

/** The account that a request names, or the only one of the settings. Throws `bad_request` for another one, and for a choice. */
export function chooseAccount(given: string | undefined, settings: Pick<Settings, "accounts">, limited: OfAccounts["accounts"]): string {
  const accounts = Object.keys(settings.accounts).filter((name) => limited === undefined || limited.includes(name));
  if (given !== undefined) refuseUnknown("bad_request", "account", given, accounts);
  const account = given ?? onlyAccount(accounts);
  if (account !== undefined) return account;
  const message = accounts.length === 0 ? "the settings have no account" : `name an account, one of ${accounts.join(", ")}`;
  throw new RelayError("bad_request", message, accounts);
}

interface SendingParts extends Background {
  readonly services: Pick<ServiceAccounts, "client" | "limiters">;
  readonly registered: (account: string) => void;
}

/** `close` resolves when the calls in flight have ended and are stored. */
export function createSending({ store, services, clock, settings, registered, ...watchers }: SendingParts) {
  const { now } = clock;
  const calling = createCalling(services, now);
  const once = createOnce({
    clock,
    store: {
      find: async (key) => store.findSend(key),
      begin: store.beginSend,
      async settle(key, ended) {
        store.announce(await store.settleSend(key, ended));
        if (ended.end === "done" && ended.sent.type === "message") registered(key.account);
      },
    },
    hooks: sendingHooks(watchers),
  });

  function callerOf(account: string, cap: CallCap, { gone, maxWait = settings().send.maxWait }: SendCaller): Caller {
    return {
      disconnected: gone,
      maxWait,
      tooLong: () =>
        new RelayError(
          "service_rate_limited",
          `the caps left no room within ${maxWait / 1000} s; nothing was sent`,
          { account },
          { retryAfterMs: untilRoom(services.limiters().get(account), cap, now()) },
        ),
    };
  }

  const port: SendingPort = {
    sendMessage({ account: given, accounts, key: givenKey, resend, reference, metadata, ...body }, caller) {
      const account = chooseAccount(given, settings(), accounts);
      const key = givenKey ?? uuidv7(now());
      return once.send(
        {
          key: { account, kind: "message", key },
          fingerprint: fingerprintOf({ ...body, reference, metadata }),
          about: maskPhone(body.to),
          resend,
          call: calling(account, "messages", async (client, options) => {
            const { id, wamid, status, conversationId } = await client.sendMessage(body, options);
            const sent = { id, wamid, status, conversationId };
            return {
              answer: { account, idempotencyKey: key, ...sent, reference: reference ?? null },
              sent: { type: "message", ...sent, reference, metadata },
            };
          }),
        },
        callerOf(account, "messages", caller),
      );
    },
    startRun({ account: given, accounts, automation, reference, resend, metadata, ...body }, caller) {
      const account = chooseAccount(given, settings(), accounts);
      return once.send(
        {
          key: { account, kind: "run", key: reference },
          fingerprint: fingerprintOf({ ...body, automation, metadata }),
          about: automation,
          resend,
          call: calling(account, "runs", async (client, options) => {
            const { runId } = await client.startRun(automation, body, options);
            return { answer: { account, reference, runId, automation }, sent: { type: "run", runId, reference, metadata } };
          }),
        },
        callerOf(account, "requests", caller),
      );
    },
  };

  return { port, close: once.close };
}

/** Enough for people who know the number. */
function maskPhone(phone: string): string {
  return `${phone.length < 10 ? "" : phone.slice(0, 3)}…${phone.slice(-2)}`;
}

function sendingHooks({ log, privacy, metrics }: Pick<Background, "log" | "privacy" | "metrics">): OnceHooks {
  return {
    ended({ key: { account, kind }, about, resend }, outcome, tookMs, reason) {
      metrics.sends.inc({ account, kind, outcome });
      const line = {
        account,
        kind,
        ...(kind === "run" ? { automation: privacy.id("automation", about) } : { to: about }),
        outcome,
        ...(reason === null ? {} : { reason: privacy.text(reason) }),
        tookMs,
        ...(resend > 0 ? { resend } : {}),
      };
      if (outcome === "unknown")
        log.error(line, "nobody knows whether it was sent; its key answers outcome_unknown until it is sent again on purpose");
      else log.info(line, "send");
    },
    notStored({ key: { account, kind } }, end, error) {
      log.error({ account, kind, end, err: error }, "what became of a send cannot be stored; it is tried again while this process lives");
    },
  };
}

/** Calls the service for a send, and answers what it did not do. */
export function createCalling(services: SendingParts["services"], now: () => number) {
  function answerTo(error: ServiceError, account: string, operation: CallOperation): RelayError {
    const { failure, status, message } = error;
    const about = { account, kind: error.kind, ...(status === null ? {} : { status }) };
    const answer = (code: ErrorCode, more: object = {}, retryAfterMs: number | null = null, text = error.text ?? message) =>
      new RelayError(code, text, { ...about, ...more }, { retryAfterMs });
    const cause = "cause" in failure && failure.cause !== null ? { cause: failure.cause } : {};
    switch (failure.kind) {
      case "rate-limited":
        return answer("service_rate_limited", {}, untilRoom(services.limiters().get(account), "requests", now()));
      case "quota": {
        const { until = failure.until, ...stop } = stopOf(services.limiters().get(account), operation);
        return answer("service_quota_used_up", { ...stop, until: new Date(until).toISOString(), ...cause });
      }
      case "unauthenticated":
        return answer("service_key_refused");
      case "blocked":
        return answer("service_key_refused", {}, 60_000);
      case "caps-unknown":
        return answer("store_unavailable", {}, 1_000, "what the account's other processes send cannot be known now; nothing was sent");
      case "network":
        return failure.code === "closed"
          ? answer("shutting_down", {}, 5_000, "the relay is stopping; nothing was sent")
          : answer("service_unreachable", { reason: failure.code }, null, message);
      case "timeout":
        return answer("service_unreachable", {}, null, message);
      case "validation": {
        const why = failure.problems.map((problem) => `${problem.path}: ${problem.message}`);
        return answer("service_refused", { problems: failure.problems }, null, [error.text ?? message, ...why].join("; "));
      }
      default:
        return answer("service_refused", cause);
    }
  }

  return (
    account: string,
    operation: CallOperation,
    call: (client: ServiceClient, options: CallOptions) => Promise<Pick<SendDone, "answer" | "sent">>,
  ): Order["call"] =>
    async ({ signal, starting, repeating }) => {
      const client = services.client(account);
      if (client === null) {
        const why = "the settings give it no baseUrl or no apiKey";
        const error = new RelayError("conflict", `the account "${account}" cannot send: ${why}`, { account });
        return { type: "not-done", error, why: error.message };
      }
      try {
        const done = await call(client, { signal, watch: { starting, repeating } });
        return { type: "done", value: { end: "done", at: now(), ...done } };
      } catch (error) {
        if (!(error instanceof ServiceError)) throw error;
        if (error.outcome === "unknown") return { type: "unknown", reason: error.message };
        return { type: "not-done", error: answerTo(error, account, operation), why: error.message };
      }
    };
}

/** The stop that covers an operation: until when it refuses calls, and what the service calls its quota. */
function stopOf(
  state: LimiterState | undefined,
  operation: CallOperation,
): { readonly stop?: QuotaReason; readonly resource?: string; readonly until?: number } {
  for (const stop of coveringReasons(operation)) {
    const until = state?.stops[stop];
    const resource = state?.resources[stop];
    if (until != null) return { stop, until, ...(resource === undefined ? {} : { resource }) };
  }
  return {};
}

/** One-minute windows (messaging-service-api.md, "Per-minute caps"). */
const windowMs = 60_000;

/**
 * About how many ms until one more send may find room, for `Retry-After`: after the waiting ones at the pace of the cap, and
 * not while it is held. At least a second, and at most a window after a hold.
 */
function untilRoom(state: LimiterState | undefined, cap: CallCap, now: number): number {
  if (state === undefined) return windowMs;
  const { caps } = state;
  const held = Math.max(caps.requests.heldUntil ?? 0, caps[cap].heldUntil ?? 0) - now;
  const { waiting, limit } = caps[cap];
  const turn = ((waiting.send + 1) * windowMs) / Math.max(limit, 1);
  return Math.max(held, 0) + Math.min(Math.max(turn, 1_000), windowMs);
}
