import type { RegistrationOutcome, TrackPort } from "../control/track.ts";
import type { Registration } from "../model/endpoints/send.ts";
import { badRequest, RelayError } from "../model/errors.ts";
import type { OfAccounts } from "../model/queries.ts";
import { conflictError, type MessageRegistration } from "../track/registration.ts";
import { chooseAccount } from "./sending.ts";
import type { Service } from "./service.ts";
import type { Background } from "./store.ts";

/** How far the clocks may differ, in ms, for the time when a message was sent. */
const clocksDifferBy = 24 * 60 * 60 * 1000;

interface RegisteringParts extends Pick<Background, "settings" | "store" | "clock"> {
  readonly service: Pick<Service, "registered">;
}

export function createRegistering({
  settings,
  store,
  clock,
  service,
}: RegisteringParts): TrackPort {
  const { now } = clock;
  const { registered } = service;

  /** Throws `bad_request` for a registration that is refused whatever is stored. */
  function checked(
    registration: Registration,
    limited: OfAccounts["accounts"],
  ): MessageRegistration {
    const account = chooseAccount(registration.account, settings(), limited);
    if (registration.sentAt !== undefined && registration.sentAt > now() + clocksDifferBy) {
      throw badRequest([{ path: "sentAt", message: "lies in the future" }]);
    }
    return { ...registration, account };
  }

  function checkedOrRefused(
    registration: Registration,
    limited: OfAccounts["accounts"],
  ): MessageRegistration | RelayError {
    try {
      return checked(registration, limited);
    } catch (error) {
      if (error instanceof RelayError) return error;
      throw error;
    }
  }

  return {
    async register(given, limited) {
      const registrations = given.map((registration) => checked(registration, limited));
      const { created, due } = await store.register(registrations, now());
      store.announce(due);
      if (created > 0) for (const { account, sentAt } of registrations) registered(account, sentAt);
      return { created, known: registrations.length - created };
    },
    async registerEach(registrations, limited) {
      const all = registrations.map((registration) => checkedOrRefused(registration, limited));
      const good = all.flatMap((each) => (each instanceof RelayError ? [] : [each]));
      const stored = await store.registerEach(good, now());
      let at = 0;
      return all.map((each): RegistrationOutcome => {
        if (each instanceof RelayError)
          return { result: "invalid", error: each.message, details: each.details };
        const { account, sentAt } = each;
        const outcome = stored[at++] as (typeof stored)[number];
        if (outcome.result === "conflict") {
          const { message: error, details } = conflictError(outcome.conflicts);
          return { result: "conflict", error, details };
        }
        store.announce(outcome.due);
        if (outcome.result === "created") registered(account, sentAt);
        return { result: outcome.result };
      });
    },
  };
}
