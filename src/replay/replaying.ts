import { setImmediate as nextTurn } from "node:timers/promises";
import type { ReplayCountView } from "../model/answers/actions.ts";
import { countIn } from "../model/maps.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { ReplayQuery } from "../model/queries.ts";
import type { Store } from "../store/create-store.ts";
import type { DueDelivery, ReplayCursor, Replayed, ReplayFound } from "../store/port.ts";
import { cursorText, longestMs, parseCursor, start, walk } from "./steps.ts";

export interface ReplayingParts {
  readonly store: Pick<Store, "read" | "findReplay" | "replay" | "findBackfill" | "backfill">;
  readonly now: () => number;
  readonly isRouted: (route: string) => boolean;
  readonly announce: (due: readonly DueDelivery[]) => void;
  /** True once the relay is stopping: a later call continues. */
  readonly stopping: () => boolean;
}

interface Steps {
  find(cursor: ReplayCursor, limit: number): MaybePromise<ReplayFound>;
  replay(found: ReplayFound["found"]): Promise<Replayed>;
}

/** Deliveries read, and at most replayed, between two turns of the event loop. */
const stepRows = 250;

/** Replays all deliveries that match a filter, in small steps: memory holds one step. */
export function createReplaying({ store, now, isRouted, announce, stopping }: ReplayingParts) {
  /** Settled deliveries, or those that unrouted events would get from a backfill. */
  function stepsOf({ disposition, ...filter }: ReplayQuery): Steps {
    if (disposition === "filtered" || disposition === "ignored") {
      const unrouted = { ...filter, disposition };
      return {
        find: (cursor, limit) => store.findBackfill(unrouted, cursor, limit),
        replay: (found) =>
          store.backfill([...new Set(found.map(({ event }) => event))], unrouted, now()),
      };
    }
    return {
      find: (cursor, limit) => store.findReplay(filter, cursor, now(), limit),
      replay: (found) => store.replay(found, filter.states, now()),
    };
  }

  return {
    async count(filter: ReplayQuery): Promise<ReplayCountView> {
      const counts = new Map<string, number>();
      const steps = stepsOf(filter);
      for await (const { found } of walk(
        start(now()),
        (cursor) => steps.find(cursor, stepRows),
        stopping,
      )) {
        for (const { route } of found) countIn(counts, route);
        await nextTurn();
      }
      const all = [...counts].map(([route, matching]) => ({ route, matching }));
      const routes = await Promise.all(
        all
          .filter(({ route }) => isRouted(route))
          .map(async (entry) => ({ ...entry, stopped: await store.read.stopReason(entry.route) })),
      );
      return {
        matching: routes.reduce((sum, { matching }) => sum + matching, 0),
        routes,
        notSent: all.filter(({ route }) => !isRouted(route)),
      };
    },
    async replay(
      filter: ReplayQuery,
      from: string | null,
      limit: number,
    ): Promise<{ replayed: number; next: string | null }> {
      const startedAt = performance.now();
      const steps = stepsOf(filter);
      let replayed = 0;
      let cursor: ReplayCursor | null = from === null ? start(now()) : parseCursor(from);
      while (
        cursor !== null &&
        replayed < limit &&
        performance.now() - startedAt < longestMs &&
        !stopping()
      ) {
        const step = await steps.find(cursor, Math.min(stepRows, limit - replayed));
        const found = step.found.filter(({ route }) => isRouted(route));
        if (found.length === 0) await nextTurn();
        else {
          const done = await steps.replay(found);
          replayed += done.replayed;
          announce(done.due);
        }
        cursor = step.cursor;
      }
      return { replayed, next: cursor === null ? null : cursorText(cursor) };
    },
  };
}
