import type { ReplayCountView, ReplayStep } from "../model/answers/actions.ts";
import { badRequest } from "../model/errors.ts";
import { refuseUnknown } from "../model/nearest.ts";
import type { ReplayQuery } from "../model/queries.ts";
import { createReleasing, type ReleasingParts } from "./releasing.ts";
import { createReplaying, type ReplayingParts } from "./replaying.ts";

interface ReplayParts extends Omit<ReplayingParts, "store" | "isRouted">, Omit<ReleasingParts, "store"> {
  readonly store: ReplayingParts["store"] & ReleasingParts["store"];
  readonly routes: () => readonly string[];
  /** Also sources that the settings no longer have. */
  readonly sources: () => Promise<readonly string[]>;
}

interface ReplayOrder extends ReplayQuery {
  readonly dryRun: boolean;
  readonly cursor: string | null;
  readonly limit?: number | undefined;
}

/** Sends settled deliveries again, gives unrouted events to routes, or releases bodies from quarantine. */
export function createReplay({ routes, sources, ...parts }: ReplayParts) {
  const releasing = createReleasing(parts);
  const replaying = createReplaying({ ...parts, isRouted: (route) => routes().includes(route) });

  function replayerOf(query: ReplayQuery) {
    if (isRelease(query)) return releasing;
    refuseQuarantineOnly(query);
    if (query.route !== undefined) refuseUnknown("not_found", "route", query.route, routes());
    return replaying;
  }

  return async ({ dryRun, cursor, limit = Number.MAX_SAFE_INTEGER, ...query }: ReplayOrder): Promise<ReplayCountView | ReplayStep> => {
    if (isRelease(query) && query.source !== undefined) refuseUnknown("not_found", "source", query.source, await sources());
    const replayer = replayerOf(query);
    return dryRun ? replayer.count(query) : replayer.replay(query, cursor, limit);
  };
}

const isRelease = ({ disposition }: ReplayQuery): boolean => disposition === "quarantined" || disposition === "unassigned";

/** Ignoring a criterion would replay everything. */
function refuseQuarantineOnly({ source, event }: ReplayQuery): void {
  if (source === undefined && event === undefined) return;
  const path = source === undefined ? "event" : "source";
  throw badRequest([{ path, message: "only with disposition: quarantined or unassigned" }]);
}
