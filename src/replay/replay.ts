import type { ReplayCountView, ReplayStep } from "../model/answers/actions.ts";
import { badRequest } from "../model/errors.ts";
import { refuseUnknown } from "../model/nearest.ts";
import type { ReplayQuery } from "../model/queries.ts";
import { createReleasing, type ReleasingParts } from "./releasing.ts";
import { createReplaying, type ReplayingParts } from "./replaying.ts";

interface ReplayParts
  extends Omit<ReplayingParts, "store" | "isRouted">,
    Omit<ReleasingParts, "store"> {
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

/**
 * Sends settled deliveries again, gives unrouted events to routes, or releases bodies from
 * quarantine.
 */
export function createReplay({ routes, sources, ...parts }: ReplayParts) {
  const releasing = createReleasing(parts);
  const replaying = createReplaying({ ...parts, isRouted: (route) => routes().includes(route) });

  return async ({
    dryRun,
    cursor,
    limit = Number.MAX_SAFE_INTEGER,
    ...query
  }: ReplayOrder): Promise<ReplayCountView | ReplayStep> => {
    const isRelease = query.disposition === "quarantined" || query.disposition === "unassigned";
    if (isRelease && query.source !== undefined)
      refuseUnknown("not_found", "source", query.source, await sources());
    refuseOthers(query, isRelease);
    if (query.route !== undefined) refuseUnknown("not_found", "route", query.route, routes());
    const replayer = isRelease ? releasing : replaying;
    return dryRun ? replayer.count(query) : replayer.replay(query, cursor, limit);
  };
}

/** Ignoring a criterion would replay everything. */
function refuseOthers({ route, errorCode, source, event }: ReplayQuery, isRelease: boolean): void {
  // A quarantined body has no deliveries and was never parsed.
  const [others, message] = isRelease
    ? [{ route, errorCode }, "does not apply to quarantined events"]
    : [{ source, event }, "only with disposition: quarantined or unassigned"];
  const given = Object.entries(others).find(([, value]) => value !== undefined);
  if (given !== undefined) throw badRequest([{ path: given[0], message }]);
}
