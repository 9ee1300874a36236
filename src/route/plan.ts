import { kept } from "../model/maps.ts";
import type { DeliveryPlan, Disposition, RoutedEvent, RouteVerdict } from "../model/states.ts";
import { compileGlobs } from "../model/statuses.ts";
import type { Tracking } from "../model/tracking.ts";
import type { RoutingSettings, UnknownPolicy } from "./settings.ts";
import { compileWhere } from "./where.ts";

/**
 * From the event and its tracking state alone. Never throws for any data. Plans are frozen, and the
 * same verdicts usually give the same object, so a store can cache by identity.
 */
export type Planner = (event: RoutedEvent, tracking: Tracking) => DeliveryPlan;

/**
 * `routes` in the order of the settings, `unknown` from `tracking.unknown`; see
 * docs/concepts/routing.md.
 */
export function createPlanner(routes: readonly RoutingSettings[], unknown: UnknownPolicy): Planner {
  const compiled = routes.map((route) => compileRoute(route, unknown));
  const ignored = new Set(compiled.map((route) => route.ignored));
  const planOf = createPlanCache((verdicts) =>
    Object.freeze({
      disposition: dispositionOf(verdicts, ignored),
      verdicts: Object.freeze([...verdicts]),
    }),
  );
  // One array for all events. Only a new plan copies it.
  const verdicts: RouteVerdict[] = compiled.map((route) => route.ignored);
  return (event, tracking) => {
    let index = 0;
    for (const route of compiled) verdicts[index++] = route.verdictOn(event, tracking);
    return planOf(verdicts);
  };
}

function dispositionOf(
  verdicts: readonly RouteVerdict[],
  ignored: ReadonlySet<RouteVerdict>,
): Disposition {
  if (verdicts.some((verdict) => verdict.verdict === "deliver")) return "routed";
  if (verdicts.some((verdict) => verdict.verdict === "park")) return "parked";
  return verdicts.some((verdict) => ignored.has(verdict)) ? "ignored" : "filtered";
}

/**
 * Verdicts in the cache, over all plans. Real settings make a few dozen plans. Bounds hostile
 * traffic at about 2 MB.
 */
const defaultLimit = 10_000;

interface Node {
  readonly next: Map<RouteVerdict, Node>;
  plan: DeliveryPlan | null;
}

/**
 * The same plan object for the same verdicts, without building a key: a tree of maps leads from the
 * few verdict objects of each route to the plan. A full cache is emptied.
 */
export function createPlanCache(
  make: (verdicts: readonly RouteVerdict[]) => DeliveryPlan,
  limit: number = defaultLimit,
) {
  let root: Node = { next: new Map(), plan: null };
  let nodes = 0;
  return (verdicts: readonly RouteVerdict[]): DeliveryPlan => {
    if (nodes > limit) {
      root = { next: new Map(), plan: null };
      nodes = 0;
    }
    let node = root;
    for (const verdict of verdicts) {
      let next = node.next.get(verdict);
      if (next === undefined) {
        next = { next: new Map(), plan: null };
        node.next.set(verdict, next);
        nodes += 1;
      }
      node = next;
    }
    node.plan ??= make(verdicts);
    return node.plan;
  };
}

interface CompiledRoute {
  /** Returns the same object for the same verdict and reason. */
  readonly verdictOn: (event: RoutedEvent, tracking: Tracking) => RouteVerdict;
  /** Of a route that skips the event only because its message is not registered. */
  readonly ignored: RouteVerdict;
}

interface Criterion {
  /** Checked only once the message is registered. */
  readonly needsRegistration: boolean;
  /** Null when the criterion holds, else the reason. */
  readonly check: (event: RoutedEvent, tracking: Tracking) => string | null;
}

function compileRoute(settings: RoutingSettings, unknown: UnknownPolicy): CompiledRoute {
  const route = settings.name;
  const deliver: RouteVerdict = Object.freeze({ route, verdict: "deliver" });
  const park: RouteVerdict = Object.freeze({ route, verdict: "park" });
  const ignored: RouteVerdict = Object.freeze({ route, verdict: "skip", reason: "untracked" });
  const skips = new Map<string, RouteVerdict>();
  const skip = (reason: string): RouteVerdict =>
    kept(skips, reason, () => Object.freeze({ route, verdict: "skip", reason }));

  const criteria = criteriaOf(settings, unknown);
  const all = criteria.map(({ check }) => check);
  const beforeRegistration = criteria
    .filter(({ needsRegistration }) => !needsRegistration)
    .map(({ check }) => check);
  const holds = settings.truncated === "hold";
  const waits = settings.match.tracked === true && unknown !== "forward";

  const verdictOn = (event: RoutedEvent, tracking: Tracking): RouteVerdict => {
    const isUnknown = waits && !tracking.tracked && tracking.subject !== "none";
    for (const check of isUnknown ? beforeRegistration : all) {
      const reason = check(event, tracking);
      if (reason !== null) return skip(reason);
    }
    if (!isUnknown) return holds && event.hydrating === true ? park : deliver;
    return unknown === "park" && event.parks !== false ? park : ignored;
  };
  return { verdictOn, ignored };
}

/** In the order in which they are checked, which decides the reason that is reported. */
function criteriaOf({ match, emit }: RoutingSettings, unknown: UnknownPolicy): Criterion[] {
  const criteria: Criterion[] = [];
  const add = (check: Criterion["check"], needsRegistration = false) =>
    criteria.push({ check, needsRegistration });

  if (!match.events.includes("*")) {
    const events = compileGlobs(match.events);
    add((event) => (events(event.event) ? null : "event"));
  }
  const { statuses, sources, accounts, tracked, errorCodes } = match;
  if (statuses !== undefined) add(isOneOf(statuses, ({ status }) => status, "status"));
  if (sources !== undefined) add(isOneOf(sources, ({ source }) => source, "source"));
  if (accounts !== undefined) add(isOneOf(accounts, ({ account }) => account, "account"));
  if (tracked === true) {
    const isEnough = (tracking: Tracking) =>
      tracking.tracked || (unknown === "forward" && tracking.subject !== "none");
    add((_, tracking) => (isEnough(tracking) ? null : "untracked"), true);
  } else if (tracked === false) add((_, tracking) => (tracking.tracked ? "tracked" : null), true);
  if (errorCodes !== undefined)
    add(isOneOf(errorCodes, ({ errorCode }) => errorCode, "error code"));
  // Reference and metadata come with the registration.
  if (match.references !== undefined) {
    const references = compileGlobs(match.references);
    add(
      (_, { reference }) => (reference !== null && references(reference) ? null : "reference"),
      true,
    );
  }
  if (match.metadata !== undefined) {
    const metadata = compileWhere(match.metadata, "metadata");
    add((_, tracking) => metadata(tracking.metadata), true);
  }
  if (match.where !== undefined) {
    const where = compileWhere(match.where, "where");
    add((event) => where(event.data));
  }
  if (emit === "transitions")
    add((_, { transition }) => (transition === null ? "no transition" : null));
  return criteria;
}

function isOneOf(
  values: readonly string[],
  of: (event: RoutedEvent) => string | null,
  reason: string,
): Criterion["check"] {
  const accepted = new Set(values);
  return (event) => {
    const value = of(event);
    return value !== null && accepted.has(value) ? null : reason;
  };
}
