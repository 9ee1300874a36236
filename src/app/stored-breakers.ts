import { pausedUntil } from "../deliver/session.ts";
import { breakerName, type LaneSettings } from "../deliver/settings.ts";
import type { RouteNotes } from "../model/delivery.ts";
import type { BreakerView } from "../model/shared-limits.ts";

/** The breakers of routes by what the store has of them, which a relay noted with its attempts. */
export function storedBreakers(
  routes: readonly LaneSettings[],
  notes: readonly RouteNotes[],
  now: number,
): ReadonlyMap<string, BreakerView> {
  return new Map(routes.map((route, place) => [route.name, breakerView(route, notes[place], now)]));
}

function breakerView(route: LaneSettings, notes: RouteNotes | undefined, now: number): BreakerView {
  const { pause = null, opened = null, failing = null } = notes ?? {};
  const isCurrent = (note: { readonly breaker: string; readonly until: number } | null): note is NonNullable<typeof note> =>
    note !== null && note.breaker === breakerName(route) && note.until > now;
  const openUntil = isCurrent(opened) ? opened.until : null;
  return {
    state: openUntil === null ? "closed" : "open",
    pausedUntil: isCurrent(pause) ? pausedUntil(pause.until, route, now) : null,
    openUntil,
    failingSince: failing?.since ?? null,
    failing,
  };
}
