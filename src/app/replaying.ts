import { setImmediate as nextTurn } from "node:timers/promises";
import type { ReplayCount, ReplayQuery } from "../control/replay.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { ReplayCursor, Replayed, ReplayFound, Store } from "../store/port.ts";
import type { DueDelivery } from "../store/rules.ts";

export interface ReplayingParts {
  readonly store: Pick<Store, "read" | "findReplay" | "replay" | "findUnplanned" | "planAgain">;
  readonly now: () => number;
  readonly isRouted: (route: string) => boolean;
  readonly offer: (due: readonly DueDelivery[]) => void;
  /** True once the relay is stopping: what is left is for the next call. */
  readonly stopping: () => boolean;
}

interface Steps {
  look(cursor: ReplayCursor, limit: number): MaybePromise<ReplayFound>;
  go(found: ReplayFound["found"]): Promise<Replayed>;
}

/** Deliveries looked at, and at most replayed, between two turns of the event loop. */
const stepRows = 250;
/** One call ends after this and says where to go on, so that a relay can stop and a client see how far it is. */
const longestMs = 5_000;

/** Replay in small steps over the whole of what a filter means, whatever its size; memory holds one step. */
export function createReplaying({ store, now, isRouted, offer, stopping }: ReplayingParts) {
  /** Deliveries that are there, or such as would be, when the events that went nowhere were judged again. */
  function stepsOf({ disposition, ...filter }: ReplayQuery): Steps {
    if (disposition === "filtered" || disposition === "ignored") {
      const unplanned = { ...filter, disposition };
      return {
        look: (cursor, limit) => store.findUnplanned(unplanned, cursor, limit),
        go: (found) => store.planAgain([...new Set(found.map(({ event }) => event))], unplanned, now()),
      };
    }
    return {
      look: (cursor, limit) => store.findReplay(filter, cursor, now(), limit),
      go: (found) => store.replay(found, filter.states, now()),
    };
  }

  return {
    async count(filter: ReplayQuery): Promise<ReplayCount> {
      const counts = new Map<string, number>();
      const steps = stepsOf(filter);
      let cursor: ReplayCursor | null = start(now());
      while (cursor !== null && !stopping()) {
        const step = await steps.look(cursor, stepRows);
        for (const { route } of step.found) counts.set(route, (counts.get(route) ?? 0) + 1);
        cursor = step.cursor;
        await nextTurn();
      }
      const all = [...counts].map(([route, matching]) => ({ route, matching }));
      const routes = await Promise.all(
        all
          .filter(({ route }) => isRouted(route))
          .map(async (entry) => ({ ...entry, stopped: await store.read.stories.stopReason(entry.route) })),
      );
      return {
        matching: routes.reduce((sum, { matching }) => sum + matching, 0),
        routes,
        notSent: all.filter(({ route }) => !isRouted(route)),
      };
    },
    async replay(filter: ReplayQuery, from: string | null, limit: number): Promise<{ replayed: number; next: string | null }> {
      const startedAt = performance.now();
      const steps = stepsOf(filter);
      let replayed = 0;
      let cursor: ReplayCursor | null = from === null ? start(now()) : parseCursor(from);
      while (cursor !== null && replayed < limit && performance.now() - startedAt < longestMs && !stopping()) {
        const step = await steps.look(cursor, Math.min(stepRows, limit - replayed));
        const found = step.found.filter(({ route }) => isRouted(route));
        if (found.length === 0) await nextTurn();
        else {
          const done = await steps.go(found);
          replayed += done.replayed;
          offer(done.due);
        }
        cursor = step.cursor;
      }
      return { replayed, next: cursor === null ? null : cursorText(cursor) };
    },
  };
}

function start(since: number): ReplayCursor {
  return { since, event: 0, route: 0 };
}

export function parseCursor(text: string): ReplayCursor {
  const [since = 0, event = 0, route = 0] = text.split(".").map(Number);
  return { since, event, route };
}

export function cursorText({ since, event, route }: ReplayCursor): string {
  return `${since}.${event}.${route}`;
}
