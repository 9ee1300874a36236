import type { PlainHandlers } from "../control/routes.ts";
import type { RegistrationOutcome, TrackPort } from "../control/track.ts";
import { knownSources } from "../inspect/reading.ts";
import type { Registration } from "../model/endpoints/send.ts";
import { badRequest, RelayError } from "../model/errors.ts";
import { refuseUnknown } from "../model/nearest.ts";
import type { OfAccounts, ReplayQuery } from "../model/queries.ts";
import { conflictError, type MessageRegistration } from "../track/registration.ts";
import type { Delivering } from "./deliver.ts";
import { createReleasing, createReplaying } from "./replaying.ts";
import { fieldsOf } from "./rules.ts";
import { chooseAccount } from "./sending.ts";
import type { Service } from "./service.ts";
import type { Stored } from "./store.ts";

/** How far the clocks may differ, in ms, for the time when a message was sent. */
const clocksDifferBy = 24 * 60 * 60 * 1000;

type ControlParts = Stored & Delivering & { readonly service: Service };

export function createActing(parts: ControlParts): Pick<PlainHandlers, "retryDelivery" | "replay" | "resumeRoute" | "resumeAccount"> {
  const { settings, store, clock, accepting, service, breakers, dispatcher, health } = parts;
  const { now } = clock;
  const { release } = accepting;
  const stopping = () => health.report().draining;
  const routeNames = () => settings().routes.map(({ name }) => name);
  const isRouted = (route: string) => routeNames().includes(route);
  const releasing = createReleasing({ store, now, sourceOf, release, stopping });
  const replaying = createReplaying({ store, now, isRouted, announce: store.announce, stopping });

  function sourceOf(name: string) {
    const { sources } = settings();
    const source = Object.hasOwn(sources, name) ? sources[name] : undefined;
    if (source?.kind !== "events") return null;
    const { account, format } = source;
    return { account, format, accounts: (source.format === "standard" ? null : source.accounts) ?? {}, fields: fieldsOf(source) };
  }

  const isRelease = ({ disposition }: Pick<ReplayQuery, "disposition">): boolean =>
    disposition === "quarantined" || disposition === "unassigned";

  function replayOf(query: ReplayQuery) {
    if (isRelease(query)) return releasing;
    refuseQuarantineOnly(query);
    if (query.route !== undefined) refuseUnknown("not_found", "route", query.route, routeNames());
    return replaying;
  }

  /** Ignoring a criterion would replay everything. */
  function refuseQuarantineOnly({ source, event }: ReplayQuery): void {
    if (source === undefined && event === undefined) return;
    const path = source === undefined ? "event" : "source";
    const message = "only with disposition: quarantined or unassigned";
    throw badRequest([{ path, message }]);
  }

  return {
    async retryDelivery({ id, accounts }) {
      const missing = () => new RelayError("not_found", "no such delivery");
      const delivery = await store.read.deliveries.find(id);
      if (delivery === null) throw missing();
      const { event, route, state: previousState } = delivery;
      if (accounts !== undefined && !accounts.includes((await store.read.events.get(event))?.account ?? "")) throw missing();
      // Without a route it would never settle, and retention would never delete it.
      if (!isRouted(route)) {
        throw new RelayError("conflict", `nothing would send it: its route "${route}" is not in the settings`, {
          route,
          state: previousState,
        });
      }
      const retried = await store.retry(event, route, now());
      if (retried === null) throw missing();
      if (retried.due !== null) store.announce([retried.due]);
      const stopped = await store.read.stories.stopReason(route);
      return { id, route, state: retried.state, previousState, stopped, pausedUntil: (await breakers()).get(route)?.pausedUntil ?? null };
    },
    async replay({ dryRun, cursor, limit = Number.MAX_SAFE_INTEGER, ...filter }) {
      const { source } = filter;
      if (isRelease(filter) && source !== undefined)
        refuseUnknown("not_found", "source", source, await knownSources(settings(), store.read));
      const replayer = replayOf(filter);
      return dryRun ? replayer.count(filter) : replayer.replay(filter, cursor, limit);
    },
    async resumeRoute({ route }) {
      refuseUnknown("not_found", "route", route, routeNames());
      // The lane before the store, in the order in which a pause is stored: a later pause is kept.
      const endedHere = dispatcher.tryNow(route);
      const ended = await store.endPause(route, now());
      return { route, resumed: (await store.resume(route)) || ended || endedHere };
    },
    async resumeAccount({ account }) {
      refuseUnknown("not_found", "account", account, Object.keys(settings().accounts));
      const ended = await service.resumeAccount(account);
      return { account, resumed: ended.length > 0, ended };
    },
  };
}

export function createRegistering({ settings, store, clock, service }: ControlParts): TrackPort {
  const { now } = clock;
  const { registered } = service;

  /** Throws `bad_request` for a registration that is refused whatever is stored. */
  function checked(registration: Registration, limited: OfAccounts["accounts"]): MessageRegistration {
    const account = chooseAccount(registration.account, settings(), limited);
    if (registration.sentAt !== undefined && registration.sentAt > now() + clocksDifferBy) {
      throw badRequest([{ path: "sentAt", message: "lies in the future" }]);
    }
    return { ...registration, account };
  }

  function checkedOrRefused(registration: Registration, limited: OfAccounts["accounts"]): MessageRegistration | RelayError {
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
        if (each instanceof RelayError) return { result: "invalid", error: each.message, details: each.details };
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
