import type { RelayDelivery } from "../../client/relay-client.ts";
import { isForbidden, relay } from "../app/api.ts";
import { useLive } from "../app/live.tsx";
import type { Action, Result } from "./action.tsx";
import { attemptsSince, resultsOf, whatHappened } from "./attempts.ts";
import { plural } from "./format.ts";

interface RetryFilter {
  readonly route?: string | undefined;
  readonly cause?: string | undefined;
  readonly errorCode?: string | undefined;
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  readonly state: "waiting" | "dead";
}

export interface Obstacles {
  /** Their destinations fail: the relay can try them at once. */
  readonly failing: readonly string[];
  /** Stopped or paused: they are resumed on purpose. */
  readonly blocked: readonly string[];
}

export function useObstacles(): (routes: readonly string[]) => Obstacles {
  const { overview } = useLive();
  const routesOf = (...kinds: readonly string[]) =>
    overview?.attention.filter(({ kind }) => kinds.includes(kind)).map(({ subject }) => subject) ??
    [];
  const [failing, blocked] = [
    routesOf("destination-failing"),
    routesOf("destination-stopped", "destination-paused"),
  ];
  return (routes) => {
    const all = [...new Set(routes)];
    return {
      failing: all.filter((route) => failing.includes(route)),
      blocked: all.filter((route) => blocked.includes(route)),
    };
  };
}

/** In place of a cause, as the API takes it: no attempt failed. */
export const noCause = "none";

const oldId = "under its old id, so that the receiver can drop what it has. You can repeat this.";

export function retryAction(
  filter: RetryFilter,
  { failing, blocked }: Obstacles,
  ended?: () => void,
): Action {
  const { state, ...more } = filter;
  const { route, cause, errorCode, from, to } = more;
  const which = { ...more, states: [state] };
  const what = [
    `${state} deliveries`,
    route && `of ${route}`,
    cause && (cause === noCause ? "that have not failed" : `that failed with ${cause}`),
    errorCode && `with error code ${errorCode}`,
    from && `from ${from}`,
    to && `to ${to}`,
  ]
    .filter((part) => part !== undefined && part !== "")
    .join(" ");
  const next = resumeOf(blocked, ended);
  return {
    title: `Retry ${what}`,
    text:
      (state === "dead"
        ? `Each goes out now, ${oldId}`
        : `Each that waits for a later attempt goes out now, ${oldId}`) +
      (failing.length === 0
        ? ""
        : ` To a destination that fails (${failing.join(", ")}) one goes out first. If it succeeds, the others follow.`),
    verb: "Retry",
    count: async () => (await relay.countReplay(which)).matching,
    ...(next !== undefined && state === "waiting"
      ? {
          whenNone: {
            text: `Nothing waits for a later attempt. What is due goes out once you resume ${blocked[0]}.`,
            next,
          },
        }
      : failing.length > 0
        ? { whenNone: { text: "Everything that waits is due already." } }
        : {}),
    run: async (onProgress, signal) => {
      const attempts = await attemptsSince(route).catch((error: unknown) => {
        // A token limited to accounts reads no figures of the whole relay.
        if (isForbidden(error)) return null;
        throw error;
      });
      for (const each of failing) await relay.resumeRoute({ route: each });
      const { replayed, complete } = await relay.replay(which, { onProgress, signal });
      const isTrial = replayed === 0 && failing.length > 0;
      const done = isTrial
        ? `What is due goes out to ${failing.join(", ")}.`
        : `${plural(replayed, "delivery", "deliveries")} retried${complete ? "" : ", then stopped"}.`;
      if (next !== undefined)
        return {
          tone: "attention",
          text: `${done} ${blocked.join(", ")}: nothing goes out before you resume it.`,
          next,
        };
      if (attempts === null) return { tone: "ok", text: done };
      return whatHappened(done, await attempts.reach(isTrial ? 1 : replayed, signal));
    },
    ended,
  };
}

export function retryDeliveries(
  deliveries: readonly Pick<RelayDelivery, "id" | "event" | "route" | "state">[],
  title: string,
  { failing, blocked }: Obstacles,
  ended: () => void,
): Action {
  return {
    title,
    text: `${deliveries.length === 1 ? "It" : "Each"} goes out now, ${oldId}`,
    verb: deliveries.every(({ state }) => state === "delivered") ? "Send again" : "Retry",
    run: async (progress, signal) => {
      const [first] = deliveries;
      if (first === undefined) return { tone: "ok", text: "Nothing to send." };
      const { deliveries: before } = await relay.getEvent({ id: first.event });
      for (const each of failing) await relay.resumeRoute({ route: each });
      const retried = [];
      for (const { id } of deliveries) {
        if (signal.aborted) break;
        retried.push(await relay.retryDelivery({ id }));
        progress(retried.length);
      }
      return {
        ...(await resultsOf(first.event, retried, before, signal)),
        next: resumeOf(blocked, ended),
      };
    },
    ended,
  };
}

/** The way on when destinations are stopped or paused. Several are resumed one by one. */
function resumeOf([route]: readonly string[], ended?: () => void): Action | undefined {
  return route === undefined ? undefined : resumeAction(route, false, ended);
}

export function resumeAction(name: string, isAccount: boolean, ended?: () => void): Action {
  return {
    title: `Resume ${name}`,
    text: isAccount
      ? "Calls to the service start again. If the quota is still used up, the service's next answer stops them again."
      : "Deliveries go out again. If the destination still refuses them, it stops again.",
    verb: "Resume",
    run: async (_, signal) => (isAccount ? resumeAccount(name) : resumeRoute(name, signal)),
    ended,
  };
}

async function resumeAccount(name: string): Promise<Result> {
  const was = (await relay.resumeAccount({ account: name })).resumed;
  return { tone: "ok", text: was ? `${name} is resumed.` : `${name} was not stopped.` };
}

async function resumeRoute(route: string, signal: AbortSignal): Promise<Result> {
  const attempts = await attemptsSince(route);
  if (!(await relay.resumeRoute({ route })).resumed)
    return { tone: "ok", text: `${route} was not stopped.` };
  const made = await attempts.reach(1, signal, route);
  if (made.stopped !== null) return { tone: "stopped", text: `It stopped again. ${made.stopped}` };
  return made.waiting === 0
    ? { tone: "ok", text: `${route} is resumed.` }
    : whatHappened(`${route} is resumed.`, made);
}

const releaseTexts = {
  quarantined: {
    text: "The relay reads the stored bytes again. What is a valid event now is accepted and routed; the rest stays in quarantine.",
    none: "No body is a valid event, as before.",
  },
  unassigned: {
    text: "Events whose business number has an account now are accepted and routed; the rest stay as they are.",
    none: "No account has a number of theirs yet. Add the numbers to accounts of their source, and reload.",
  },
};

type Releasable = keyof typeof releaseTexts;
export const isReleasable = (disposition: string): disposition is Releasable =>
  Object.hasOwn(releaseTexts, disposition);

export function releaseAction(
  disposition: Releasable,
  filter: { source?: string; event?: number } = {},
  ended?: () => void,
): Action {
  const scope = { disposition, ...filter };
  return {
    title:
      filter.event === undefined
        ? `Release ${disposition} events`
        : `Release ${disposition} event ${filter.event}`,
    text: releaseTexts[disposition].text,
    verb: "Release",
    count: async () => (await relay.countReplay(scope)).matching,
    whenNone: { text: releaseTexts[disposition].none, isEnd: true },
    run: async (onProgress, signal) => {
      const { replayed, complete } = await relay.replay(scope, { onProgress, signal });
      return {
        tone: "ok",
        text: `${plural(replayed, "event")} released${complete ? "" : ", then stopped"}.`,
      };
    },
    ended,
  };
}
