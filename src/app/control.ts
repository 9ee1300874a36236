import type { ReplayQuery } from "../control/replay.ts";
import type { Control } from "../control/routes.ts";
import type { Registration, RegistrationOutcome } from "../control/track.ts";
import { RelayError } from "../model/errors.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { BreakerView } from "../model/shared-limits.ts";
import type { Store } from "../store/port.ts";
import { conflictError } from "../store/registration.ts";
import { createReadingPort } from "./reading.ts";
import { createReleasing, type ReleasingParts } from "./releasing.ts";
import { createReplaying } from "./replaying.ts";

/** A message sent further ahead of the relay's clock than this, in ms, has a wrong time. */
const clocksDifferBy = 24 * 60 * 60 * 1000;

export interface ControlPortParts {
  readonly store: Store;
  readonly now: () => number;
  /** Names in the settings in force. */
  readonly known: () => { readonly routes: readonly string[]; readonly accounts: readonly string[] };
  /** A message was registered that was not; `sentAt` in unix ms, when told. */
  readonly registered: (account: string, sentAt: number | undefined) => void;
  /** Ends the stops of an account's quotas; gives those that there were. */
  readonly resumeAccount: (account: string) => Promise<readonly string[]>;
  readonly breakers: () => MaybePromise<ReadonlyMap<string, BreakerView>>;
  readonly resume: Control["resume"];
  readonly stopping: () => boolean;
  readonly fieldsOf: ReleasingParts["fieldsOf"];
  readonly release: ReleasingParts["release"];
}

/** The control API's port over the store and the dispatcher. */
export function createControlPort(parts: ControlPortParts): Control {
  const { store, now, known, registered, resumeAccount, breakers, resume, stopping, fieldsOf, release } = parts;
  const isRouted = (route: string) => known().routes.includes(route);
  const releasing = createReleasing({ store, now, fieldsOf, release, stopping });
  const replaying = createReplaying({ store, now, isRouted, offer: store.announce, stopping });

  function refuseUnknownRoute({ route }: { route?: string | undefined }): void {
    if (route !== undefined && !isRouted(route)) throw new RelayError("not_found", `no route "${route}" in the settings`, known().routes);
  }

  /** A criterion that is not looked at would let everything go. */
  function refuseQuarantineOnly({ source, event }: ReplayQuery): void {
    if (source === undefined && event === undefined) return;
    const path = source === undefined ? "event" : "source";
    const message = "only with disposition: quarantined";
    throw new RelayError("bad_request", `${path}: ${message}`, [{ path, message }]);
  }

  function refusalOf({ account, sentAt }: Registration, accounts: readonly string[]): RelayError | null {
    if (!accounts.includes(account)) return new RelayError("bad_request", `no account "${account}" in the settings`, accounts);
    if (sentAt !== undefined && sentAt > now() + clocksDifferBy) {
      return new RelayError("bad_request", "sentAt: lies in the future", [{ path: "sentAt", message: "lies in the future" }]);
    }
    return null;
  }

  return {
    ...createReadingPort(store.read, store.inspecting),
    async retry(id) {
      const delivery = await store.read.deliveries.find(id);
      if (delivery === null) return null;
      const { event, route, state: previousState } = delivery;
      // Waiting without anybody to send it, it would never settle, and never be taken away either.
      if (!isRouted(route)) {
        throw new RelayError("conflict", `nothing would send it: its route "${route}" is not in the settings`, {
          route,
          state: previousState,
        });
      }
      const retried = await store.retry(event, route, now());
      if (retried === null) return null;
      if (retried.due !== null) store.announce([retried.due]);
      const stopped = await store.read.stories.stopReason(route);
      return { id, route, state: retried.state, previousState, stopped, pausedUntil: (await breakers()).get(route)?.pausedUntil ?? null };
    },
    async countReplay(filter) {
      if (filter.disposition === "quarantined") return releasing.count(filter);
      refuseQuarantineOnly(filter);
      refuseUnknownRoute(filter);
      return replaying.count(filter);
    },
    async replay(filter, cursor, limit) {
      if (filter.disposition === "quarantined") return releasing.replay(filter, cursor, limit);
      refuseQuarantineOnly(filter);
      refuseUnknownRoute(filter);
      return replaying.replay(filter, cursor, limit);
    },
    async register(registrations) {
      const { accounts } = known();
      for (const registration of registrations) {
        const refusal = refusalOf(registration, accounts);
        if (refusal !== null) throw refusal;
      }
      const { created, due } = await store.register(registrations, now());
      store.announce(due);
      if (created > 0) for (const { account, sentAt } of registrations) registered(account, sentAt);
      return { created, known: registrations.length - created };
    },
    async registerEach(registrations) {
      const { accounts } = known();
      const refusals = registrations.map((registration) => refusalOf(registration, accounts));
      const good = registrations.filter((_, index) => refusals[index] === null);
      const stored = await store.registerEach(good, now());
      let at = 0;
      return refusals.map((refusal): RegistrationOutcome => {
        if (refusal !== null) return { result: "invalid", error: refusal.message, details: refusal.details };
        const { account, sentAt } = good[at] as Registration;
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
    resume,
    async resumeAccount(account) {
      return known().accounts.includes(account) ? resumeAccount(account) : null;
    },
  };
}
