import type { RoutedEvent, RouteVerdict } from "../model/plan.ts";
import type { Tracking } from "../model/tracking.ts";
import type { Match, RoutingSettings, UnknownPolicy } from "./settings.ts";
import { compileWhere } from "./where.ts";

/** A route whose settings are compiled once, not for each event. */
interface CompiledRoute {
  /** Returns the same object for the same verdict and reason. */
  readonly judge: (event: RoutedEvent, tracking: Tracking) => RouteVerdict;
  /** The verdict of a route that skips the event only because its message is not registered. */
  readonly ignored: RouteVerdict;
}

/** Null when the criterion holds, else the reason. */
type Criterion = (event: RoutedEvent, tracking: Tracking) => string | null;

export function compileRoute(settings: RoutingSettings, unknown: UnknownPolicy): CompiledRoute {
  const route = settings.name;
  const deliver: RouteVerdict = Object.freeze({ route, verdict: "deliver" });
  const park: RouteVerdict = Object.freeze({ route, verdict: "park" });
  const ignored: RouteVerdict = Object.freeze({ route, verdict: "skip", reason: "untracked" });
  const skips = new Map<string, RouteVerdict>();
  const skip = (reason: string): RouteVerdict => {
    let verdict = skips.get(reason);
    if (verdict === undefined) {
      verdict = Object.freeze({ route, verdict: "skip", reason });
      skips.set(reason, verdict);
    }
    return verdict;
  };

  const ofEvent = eventCriteria(settings.match);
  const tracked = trackedCriteria(settings.match, unknown);
  const codes = codeCriteria(settings.match);
  const registered = registrationCriteria(settings.match);
  const rest = restCriteria(settings);
  const every = [...ofEvent, ...tracked, ...codes, ...registered, ...rest];
  // Reference and metadata come with the registration, so they cannot be checked before it.
  const beforeRegistration = [...ofEvent, ...codes, ...rest];
  const holds = settings.truncated === "hold";
  const waits = settings.match.tracked === true && unknown !== "forward";

  const judge = (event: RoutedEvent, tracking: Tracking): RouteVerdict => {
    const isUnknown = waits && !tracking.tracked && tracking.subject !== "none";
    for (const criterion of isUnknown ? beforeRegistration : every) {
      const reason = criterion(event, tracking);
      if (reason !== null) return skip(reason);
    }
    if (!isUnknown) return holds && event.hydrating === true ? park : deliver;
    return unknown === "park" ? park : ignored;
  };
  return { judge, ignored };
}

function eventCriteria(match: Match): Criterion[] {
  const criteria: Criterion[] = [];
  if (!match.events.includes("*")) {
    const events = compileGlobs(match.events);
    criteria.push((event) => (events(event.event) ? null : "event"));
  }
  if (match.statuses !== undefined) {
    const statuses = new Set(match.statuses);
    criteria.push((event) => (event.status !== null && statuses.has(event.status) ? null : "status"));
  }
  if (match.sources !== undefined) {
    const sources = new Set(match.sources);
    criteria.push((event) => (sources.has(event.source) ? null : "source"));
  }
  if (match.accounts !== undefined) {
    const accounts = new Set(match.accounts);
    criteria.push((event) => (accounts.has(event.account) ? null : "account"));
  }
  return criteria;
}

function trackedCriteria(match: Match, unknown: UnknownPolicy): Criterion[] {
  if (match.tracked === undefined) return [];
  if (!match.tracked) return [(_, tracking) => (tracking.tracked ? "tracked" : null)];
  return [(_, tracking) => (tracking.tracked || (unknown === "forward" && tracking.subject !== "none") ? null : "untracked")];
}

function codeCriteria(match: Match): Criterion[] {
  if (match.errorCodes === undefined) return [];
  const codes = new Set(match.errorCodes);
  return [(event) => (event.errorCode !== null && codes.has(event.errorCode) ? null : "error code")];
}

function registrationCriteria(match: Match): Criterion[] {
  const criteria: Criterion[] = [];
  if (match.references !== undefined) {
    const references = compileGlobs(match.references);
    criteria.push((_, tracking) => (tracking.reference !== null && references(tracking.reference) ? null : "reference"));
  }
  if (match.metadata !== undefined) {
    const metadata = compileWhere(match.metadata, "metadata");
    criteria.push((_, tracking) => metadata(tracking.metadata));
  }
  return criteria;
}

function restCriteria(settings: RoutingSettings): Criterion[] {
  const criteria: Criterion[] = [];
  if (settings.match.where !== undefined) {
    const where = compileWhere(settings.match.where, "where");
    criteria.push((event) => where(event.data));
  }
  if (settings.emit === "transitions") criteria.push((_, tracking) => (tracking.transition === null ? "no transition" : null));
  return criteria;
}

/**
 * A test for texts that match any of the patterns. `*` matches any run of characters, including none and dots. Every
 * other character matches itself, with case. Takes at most length of text times length of pattern.
 */
export function compileGlobs(patterns: readonly string[]): (text: string) => boolean {
  if (patterns.includes("*")) return () => true;
  const exact = new Set(patterns.filter((pattern) => !pattern.includes("*")));
  const globs = patterns.filter((pattern) => pattern.includes("*")).map(compileGlob);
  if (globs.length === 0) return (text) => exact.has(text);
  return (text) => exact.has(text) || globs.some((glob) => glob(text));
}

function compileGlob(pattern: string): (text: string) => boolean {
  const pieces = pattern.split("*");
  const head = pieces[0] as string;
  const tail = pieces.at(-1) as string;
  const middle = pieces.slice(1, -1).filter((piece) => piece !== "");
  return (text) => {
    const end = text.length - tail.length;
    if (end < head.length || !text.startsWith(head) || !text.endsWith(tail)) return false;
    // The first match of a piece leaves the most room for the rest, so no backtracking is needed.
    let from = head.length;
    for (const piece of middle) {
      const at = text.indexOf(piece, from);
      if (at === -1 || at + piece.length > end) return false;
      from = at + piece.length;
    }
    return true;
  };
}
