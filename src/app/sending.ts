import { onlyAccount, type Settings } from "../config/schema.ts";
import type { SendCaller, SendingPort } from "../control/sending.ts";
import { RelayError } from "../model/errors.ts";
import { uuidv7 } from "../model/ids.ts";
import { refuseUnknown } from "../model/nearest.ts";
import type { OfAccounts } from "../model/queries.ts";
import { createCalling, untilRoom } from "../send/calling.ts";
import { type Caller, createOnce, fingerprintOf, type OnceHooks } from "../send/once.ts";
import type { ServiceAccounts } from "../service/accounts.ts";
import type { CallCap } from "../service/endpoints.ts";
import type { Background } from "./store.ts";

/**
 * The account that a request names, or the only one of the settings. Throws `bad_request` for
 * another one, and for a choice.
 */
export function chooseAccount(
  given: string | undefined,
  settings: Pick<Settings, "accounts">,
  limited: OfAccounts["accounts"],
): string {
  const accounts = Object.keys(settings.accounts).filter(
    (name) => limited === undefined || limited.includes(name),
  );
  if (given !== undefined) refuseUnknown("bad_request", "account", given, accounts);
  const account = given ?? onlyAccount(accounts);
  if (account !== undefined) return account;
  const message =
    accounts.length === 0
      ? "the settings have no account"
      : `name an account, one of ${accounts.join(", ")}`;
  throw new RelayError("bad_request", message, accounts);
}

interface SendingParts extends Background {
  readonly services: Pick<ServiceAccounts, "client" | "limiterOf" | "stops">;
  readonly registered: (account: string) => void;
}

/** `close` resolves when the calls in flight have ended and are stored. */
export function createSending({
  store,
  services,
  clock,
  settings,
  registered,
  ...watchers
}: SendingParts) {
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

  function callerOf(
    account: string,
    cap: CallCap,
    { gone, maxWait = settings().send.maxWait }: SendCaller,
  ): Caller {
    return {
      disconnected: gone,
      maxWait,
      tooLong: () =>
        new RelayError(
          "service_rate_limited",
          `the caps left no room within ${maxWait / 1000} s; nothing was sent`,
          { account },
          { retryAfterMs: untilRoom(services.limiterOf(account), cap, now()) },
        ),
    };
  }

  const port: SendingPort = {
    sendMessage(
      { account: given, accounts, key: givenKey, resend, reference, metadata, ...body },
      caller,
    ) {
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
    startRun(
      { account: given, accounts, automation, reference, resend, metadata, ...body },
      caller,
    ) {
      const account = chooseAccount(given, settings(), accounts);
      return once.send(
        {
          key: { account, kind: "run", key: reference },
          fingerprint: fingerprintOf({ ...body, automation, metadata }),
          about: automation,
          resend,
          call: calling(account, "runs", async (client, options) => {
            const { runId } = await client.startRun(automation, body, options);
            return {
              answer: { account, reference, runId, automation },
              sent: { type: "run", runId, reference, metadata },
            };
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

function sendingHooks({
  log,
  privacy,
  metrics,
}: Pick<Background, "log" | "privacy" | "metrics">): OnceHooks {
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
        log.error(
          line,
          "nobody knows whether it was sent; its key answers outcome_unknown until it is sent again on purpose",
        );
      else log.info(line, "send");
    },
    notStored({ key: { account, kind } }, end, error) {
      log.error(
        { account, kind, end, err: error },
        "what became of a send cannot be stored; it is tried again while this process lives",
      );
    },
  };
}
