import { pausedUntil } from "../deliver/health.ts";
import { breakerName, type LaneSettings } from "../deliver/settings.ts";
import type { BreakerView } from "../model/breaker.ts";
import type { RouteNotes } from "../model/delivery.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";

/** What is stored of the breakers of routes, by route. The process that delivers a route knows more. */
export async function storedBreakers(
  routes: readonly LaneSettings[],
  notesOf: (routes: readonly string[]) => MaybePromise<readonly RouteNotes[]>,
  now: number,
): Promise<ReadonlyMap<string, BreakerView>> {
  const notes = await notesOf(routes.map(({ name }) => name));
  return new Map(routes.map((route, place) => [route.name, breakerView(route, notes[place], now)]));
}

function breakerView(route: LaneSettings, notes: RouteNotes | undefined, now: number): BreakerView {
  const { pause = null, opened = null, failing = null } = notes ?? {};
  const name = breakerName(route);
  const isOpened = opened?.breaker === name;
  const isOpen = isOpened && opened.until > now;
  return {
    state: isOpen ? "open" : isOpened ? "half-open" : "closed",
    pausedUntil: pause?.breaker === name && pause.until > now ? pausedUntil(pause.until, route, now) : null,
    openUntil: isOpen ? opened.until : null,
    failingSince: failing?.since ?? null,
    failing,
  };
}
