import type { Control } from "../control/port.ts";
import { RelayError } from "../event/errors.ts";
import type { DueDelivery } from "../store/planned.ts";
import type { SqliteStore } from "../store/sqlite/sqlite-store.ts";
import { createReadingPort } from "./reading-port.ts";
import { createReplaying } from "./replaying.ts";

export interface ControlPortParts {
  readonly store: SqliteStore;
  readonly now: () => number;
  /** Names in the settings in force. */
  readonly known: () => { readonly routes: readonly string[]; readonly accounts: readonly string[] };
  /** Deliveries that became due. */
  readonly offer: (due: readonly DueDelivery[]) => void;
  /** A destination was resumed. */
  readonly wake: (route: string) => void;
  readonly stopping: () => boolean;
}

/** The control API's port over the store and the dispatcher. */
export function createControlPort({ store, now, known, offer, wake, stopping }: ControlPortParts): Control {
  const isRouted = (route: string) => known().routes.includes(route);
  const replaying = createReplaying({ store, now, isRouted, offer, stopping });

  function refuseUnknownRoute({ route }: { route?: string | undefined }): void {
    if (route !== undefined && !isRouted(route)) throw new RelayError("not_found", `no route "${route}" in the settings`, known().routes);
  }

  return {
    ...createReadingPort(store.read),
    async retry(id) {
      const delivery = store.read.deliveries.find(id);
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
      if (retried.due !== null) offer([retried.due]);
      return { id, route, state: retried.state, previousState, stopped: store.stopReason(route) };
    },
    async countReplay(filter) {
      refuseUnknownRoute(filter);
      return replaying.count(filter);
    },
    async replay(filter, cursor, limit) {
      refuseUnknownRoute(filter);
      return replaying.replay(filter, cursor, limit);
    },
    async register(registrations) {
      const { accounts } = known();
      const stranger = registrations.find(({ account }) => !accounts.includes(account));
      if (stranger !== undefined) throw new RelayError("bad_request", `no account "${stranger.account}" in the settings`, accounts);
      const { created, due } = await store.register(registrations, now());
      offer(due);
      return { created };
    },
    async resume(route) {
      if (!isRouted(route)) return null;
      const resumed = await store.resume(route);
      wake(route);
      return resumed;
    },
  };
}
