import { relay } from "../app/api.ts";
import type { Action } from "./action.tsx";
import { plural } from "./format.ts";

interface RetryFilter {
  readonly route?: string | undefined;
  readonly cause?: string | undefined;
  readonly errorCode?: string | undefined;
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  readonly state: "waiting" | "dead";
}

const oldId = "under its old id, so that the receiver can drop what it has. You can repeat this.";

/**
 * Deliveries of a route, of a cause, or all in a state go out again. `failing`: routes whose destinations fail, which the
 * relay then tries at once.
 */
export function retryAction(filter: RetryFilter, failing: readonly string[], ended?: () => void): Action {
  const { state, ...more } = filter;
  const { route, cause, errorCode, from, to } = more;
  const which = { ...more, states: state === "waiting" ? (["waiting"] as const) : (["dead"] as const) };
  const what = [
    `${state} deliveries`,
    ...(route === undefined ? [] : [`of ${route}`]),
    ...(cause === undefined ? [] : [`that failed with ${cause}`]),
    ...(errorCode === undefined ? [] : [`with error code ${errorCode}`]),
    ...(from === undefined ? [] : [`from ${from}`]),
    ...(to === undefined ? [] : [`to ${to}`]),
  ].join(" ");
  return {
    title: `Retry ${what}`,
    text:
      (state === "dead" ? `Each goes out now, ${oldId}` : `Each that waits for a later attempt goes out now, ${oldId}`) +
      (failing.length === 0
        ? ""
        : ` To a destination that fails (${failing.join(", ")}) one goes out first. If it succeeds, the others follow.`),
    verb: "Retry",
    count: async () => (await relay.countReplay(which)).matching,
    ...(failing.length === 0 ? {} : { whenNone: "Everything that waits is due already." }),
    run: async (onProgress, signal) => {
      for (const each of failing) await relay.resume(each);
      const { replayed, complete } = await relay.replay(which, { onProgress, signal });
      return `${plural(replayed, "delivery", "deliveries")} retried${complete ? "" : ", then stopped"}.`;
    },
    ...(ended === undefined ? {} : { ended }),
  };
}

/** Ends the stop or pause of a route's destination, or of an account. */
export function resumeAction(name: string, isAccount: boolean, ended?: () => void): Action {
  return {
    title: `Resume ${name}`,
    text: isAccount
      ? "Calls to the service start again. If the quota is still used up, the service's next answer stops them again."
      : "Deliveries go out again. If the destination still refuses them, it stops again.",
    verb: "Resume",
    run: async () => {
      const was = isAccount ? (await relay.resumeAccount(name)).length > 0 : await relay.resume(name);
      return was ? `${name} is resumed.` : `${name} was not stopped.`;
    },
    ...(ended === undefined ? {} : { ended }),
  };
}

/** Quarantined events whose body is valid now are accepted like new ones. */
export function releaseAction(filter: { source?: string; event?: number } = {}, ended?: () => void): Action {
  const scope = { disposition: "quarantined", ...filter } as const;
  return {
    title: filter.event === undefined ? "Release quarantined events" : `Release quarantined event ${filter.event}`,
    text: "The relay reads the stored bytes again. What is a valid event now is accepted and routed; the rest stays in quarantine.",
    verb: "Release",
    count: async () => (await relay.countReplay(scope)).matching,
    run: async (onProgress, signal) => {
      const { replayed, complete } = await relay.replay(scope, { onProgress, signal });
      return `${plural(replayed, "event")} released${complete ? "" : ", then stopped"}.`;
    },
    ...(ended === undefined ? {} : { ended }),
  };
}
