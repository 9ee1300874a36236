import type { PlainHandlers } from "../control/routes.ts";
import { knownSources } from "../inspect/reading.ts";
import { RelayError } from "../model/errors.ts";
import { refuseUnknown } from "../model/nearest.ts";
import { createReplay } from "../replay/replay.ts";
import type { Intake } from "./accept.ts";
import type { Delivering } from "./deliver.ts";
import { fieldsOf } from "./rules.ts";
import type { Service } from "./service.ts";
import type { Stored } from "./store.ts";

/** What operators do to deliveries, routes and accounts. */
export function createActing(
  parts: Stored & Delivering & { readonly service: Service; readonly intake: Intake },
): Pick<PlainHandlers, "retryDelivery" | "replay" | "resumeRoute" | "resumeAccount"> {
  const { settings, store, clock, intake, service, breakers, dispatcher, health } = parts;
  const { now } = clock;
  const routeNames = () => settings().routes.map(({ name }) => name);

  function sourceOf(name: string) {
    const { sources } = settings();
    const source = Object.hasOwn(sources, name) ? sources[name] : undefined;
    if (source?.kind !== "events") return null;
    const { account, format } = source;
    return {
      account,
      format,
      accounts: (source.format === "standard" ? null : source.accounts) ?? {},
      fields: fieldsOf(source),
    };
  }

  return {
    async retryDelivery({ id, accounts }) {
      const missing = () => new RelayError("not_found", "no such delivery");
      const delivery = await store.read.findDelivery(id);
      if (delivery === null) throw missing();
      const { event, route, state: previousState } = delivery;
      if (
        accounts !== undefined &&
        !accounts.includes((await store.read.getEvent(event))?.account ?? "")
      )
        throw missing();
      // Without a route it would never settle, and retention would never delete it.
      if (!routeNames().includes(route)) {
        throw new RelayError(
          "conflict",
          `nothing would send it: its route "${route}" is not in the settings`,
          {
            route,
            state: previousState,
          },
        );
      }
      const retried = await store.retry(event, route, now());
      if (retried === null) throw missing();
      if (retried.due !== null) store.announce([retried.due]);
      const stopped = await store.read.stopReason(route);
      return {
        id: delivery.id,
        route,
        state: retried.state,
        previousState,
        stopped,
        pausedUntil: (await breakers()).get(route)?.pausedUntil ?? null,
      };
    },
    replay: createReplay({
      store,
      now,
      routes: routeNames,
      sources: () => knownSources(settings(), store.read),
      sourceOf,
      release: intake.release,
      announce: store.announce,
      stopping: () => health.report().draining,
    }),
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
