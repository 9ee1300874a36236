import type { Failing, RouteStop } from "../../model/breaker.ts";
import type { OpenNote, RouteNotes, Settlement } from "../../model/delivery.ts";
import type { Work } from "../sql/ops.ts";
import { put, take, value, values } from "./state.ts";

/*
 * Kept for whoever delivers the route next: a stop (410), a pause that the destination asked for (429), an open breaker, and since when
 * it has been failing.
 */

type Pause = NonNullable<Settlement["pause"]>;

const stopKey = (route: string): string => `stop/${route}`;
const pauseKey = (route: string): string => `pause/${route}`;
const failingKey = (route: string): string => `failing/${route}`;
const breakerKey = (route: string): string => `breaker/${route}`;

export function* noteOfRoute({ route, at, stop, pause, opened, failing }: Settlement): Work<void> {
  if (stop !== undefined) yield* put(stopKey(route), { at, reason: stop } satisfies RouteStop);
  if (pause !== undefined) {
    const known = yield* value<Pause>(pauseKey(route), "update");
    // Attempts end in any order, so the longest pause counts. Other settings of the breaker begin anew.
    const until = known?.breaker === pause.breaker ? Math.max(known.until, pause.until) : pause.until;
    yield* put(pauseKey(route), { ...pause, until }, until);
  }
  if (opened !== undefined) yield* put(breakerKey(route), opened);
  if (failing !== undefined) yield* put(failingKey(route), failing);
}

export function* notesOf(routes: readonly string[]): Work<RouteNotes[]> {
  const found = yield* values<RouteStop | Pause | OpenNote | Failing>(
    routes.flatMap((route) => [stopKey(route), pauseKey(route), breakerKey(route), failingKey(route)]),
  );
  return routes.map((_, place) => {
    const [stop, pause, opened, failing] = found.slice(4 * place) as [RouteStop | null, Pause | null, OpenNote | null, Failing | null];
    return { stop, pause, opened, failing };
  });
}

/** False: it was not stopped. */
export function* resume(route: string): Work<boolean> {
  return (yield* take(stopKey(route))) !== null;
}

/** True: there was a pause or an open breaker. */
export function* endPause({ route, now }: { readonly route: string; readonly now: number }): Work<boolean> {
  const opened = yield* take<OpenNote>(breakerKey(route));
  const paused = yield* take<Pause>(pauseKey(route));
  return Math.max(opened?.until ?? 0, paused?.until ?? 0) > now;
}

export function* stopReason(route: string): Work<string | null> {
  return (yield* value<RouteStop>(stopKey(route)))?.reason ?? null;
}
