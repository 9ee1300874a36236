import { isTruncated, parseEnvelope } from "../event/envelope.ts";
import type { HydrationStart } from "../event/hydration.ts";
import { maskText } from "../event/mask.ts";
import type { DeliveryPlan, RouteVerdict } from "../event/plan.ts";
import type { ReceivedEvent } from "../event/received.ts";
import type { RoutedEvent } from "../event/routed-event.ts";
import type { RunStatus } from "../event/statuses.ts";
import type { MessageState, RunState, Step, Tracking } from "../event/tracking.ts";

/**
 * What the store asks of tracking and routing: pure functions, so that track + plan are one step that happens whole or
 * not at all, the one that accepts the event or one after it. `plan` and the two settings change when the settings are
 * reloaded.
 */
export interface Rules {
  stepMessage(state: MessageState, seen: { status: string | null; errorCode: string | null; at: number }): Step<MessageState>;
  stepRun(state: RunState, seen: { status: RunStatus | null; error: string | null; at: number }): Step<RunState>;
  plan(event: RoutedEvent, tracking: Tracking): DeliveryPlan;
  /** Told of an event that `plan`, or one of the steps, failed on: it is set aside. */
  failed?(error: unknown, event: Pick<RoutedEvent, "event" | "account" | "source">): void;
  /** How the hydration of a truncated event begins; null: it needs none. */
  hydration(event: { readonly event: string; readonly account: string; readonly hasSubject: boolean }): HydrationStart | null;
  /** Whether the route's deliveries of one message go out one after the other, and the wait before a first attempt in ms. */
  timing(route: string): { readonly ordered: boolean; readonly firstWait: number };
  /** How long an event may stay parked, in milliseconds. */
  readonly parkFor: number;
}

/** A delivery that waits for its time: the dispatcher's wake-up. `event` is the event's seq, `at` unix ms. */
export interface DueDelivery {
  readonly route: string;
  readonly event: number;
  readonly at: number;
}

/** `disposition` is `accepted` of an event that another process tracks and plans. */
export type AcceptOutcome =
  | { readonly result: "accepted"; readonly seq: number; readonly disposition: string; readonly due: readonly DueDelivery[] }
  /** `conflict`: the id is known with other bytes. */
  | { readonly result: "duplicate"; readonly seq: number; readonly conflict: boolean };

/** What became of an event that was only accepted. */
export interface Planned {
  readonly seq: number;
  readonly source: string;
  readonly disposition: string;
  /** Why it could not be judged, and goes nowhere. */
  readonly fault: string | null;
  readonly due: readonly DueDelivery[];
}

export interface PlannedSome {
  /** By this process, in their order. */
  readonly planned: readonly Planned[];
  /** Seqs that were taken off the list, because their rows are not there or cannot be read. */
  readonly lost: readonly string[];
  /** `others`: another process was faster with all that was looked at. */
  readonly left: "none" | "some" | "others";
}

/** The part of tracking that registration told. */
export type Facts = Pick<Tracking, "subject" | "tracked" | "id" | "reference" | "metadata">;

/** What tracking knows of an event that is about neither a message nor a run. */
export const nothingTracked: Tracking = {
  subject: "none",
  tracked: false,
  id: null,
  reference: null,
  metadata: null,
  previousStatus: null,
  status: null,
  errorCode: null,
  transition: null,
};

export const unseenMessage: MessageState = { status: null, errorCode: null, times: {} };
export const unseenRun: RunState = { status: null, error: null, times: {} };

/** `registered`: null when it was never registered; `metadata` is a JSON object. */
export function factsOf(
  subject: "message" | "run",
  registered: { readonly id: string | null; readonly reference: string | null; readonly metadata: string | null } | null,
): Facts {
  if (registered === null) return untrackedFacts(subject);
  const { id, reference, metadata } = registered;
  return {
    subject,
    tracked: true,
    id,
    reference,
    metadata: metadata === null ? null : (JSON.parse(metadata) as Record<string, unknown>),
  };
}

/** The facts of something that was never registered. */
export function untrackedFacts(subject: Facts["subject"]): Facts {
  return { subject, tracked: false, id: null, reference: null, metadata: null };
}

/** Status and error code that routes match. */
export function routedWords({ subject }: ReceivedEvent): { readonly status: string | null; readonly errorCode: string | null } {
  if (subject.type === "message") return { status: subject.status, errorCode: subject.errorCode };
  if (subject.type === "run") return { status: subject.status, errorCode: null };
  return { status: null, errorCode: null };
}

/** Plans an event. One that it fails on goes to no route and says why: it must harm no other. */
export function planEvent(rules: Pick<Rules, "plan" | "failed">, event: RoutedEvent, tracking: Tracking): DeliveryPlan {
  try {
    return rules.plan(event, tracking);
  } catch (error) {
    return setAside(rules, event, error);
  }
}

/** The plan of an event that could not be tracked or planned. */
export function setAside(rules: Pick<Rules, "failed">, event: Parameters<NonNullable<Rules["failed"]>>[1], error: unknown): DeliveryPlan {
  rules.failed?.(error, event);
  return { disposition: "filtered", verdicts: planningFailed, fault: planningFault(error) };
}

/** An error's text may quote what it failed on. */
export function planningFault(error: unknown): string {
  return `could not be planned: ${maskText(error instanceof Error ? error.message : String(error)).slice(0, 300)}`;
}

/** A stored event, as far as routes judge it again. */
export interface JudgedEvent {
  readonly account: string;
  readonly source: string;
  readonly body: Buffer;
  readonly status: string | null;
  readonly previousStatus: string | null;
  readonly errorCode: string | null;
  /** True when it was a transition. */
  readonly moved: boolean;
}

/** What the routes of today make of a stored event, with what is known today; null: its body is no envelope. */
export function judgeAgain(rules: Pick<Rules, "plan" | "failed">, event: JudgedEvent, facts: Facts): readonly RouteVerdict[] | null {
  const parsed = parseEnvelope(event.body);
  if (!parsed.ok) return null;
  const { envelope } = parsed;
  const { account, source, status, errorCode, previousStatus, moved } = event;
  return planEvent(
    rules,
    { event: envelope.event, account, source, status, errorCode, data: envelope.data, truncated: isTruncated(envelope) },
    { ...facts, previousStatus, status, errorCode, transition: moved && status !== null ? { from: previousStatus, to: status } : null },
  ).verdicts;
}

/**
 * What the routes make of a truncated event once all is known that will be known: nothing of any message. An event
 * whose body is no envelope goes to every route that held it back.
 */
export function judgeTruncated(
  rules: Pick<Rules, "plan" | "failed">,
  { account, source, body }: Pick<JudgedEvent, "account" | "source" | "body">,
): readonly RouteVerdict[] | null {
  const parsed = parseEnvelope(body);
  if (!parsed.ok) return null;
  const { event, data } = parsed.envelope;
  return planEvent(rules, { event, account, source, status: null, errorCode: null, data, truncated: true }, nothingTracked).verdicts;
}

/** A route's verdict as it is kept: `[route, verdict, reason?]`. */
export type KeptVerdict = readonly [route: string, verdict: RouteVerdict["verdict"], reason?: string];

export function keptVerdicts({ verdicts }: Pick<DeliveryPlan, "verdicts">): KeptVerdict[] {
  return verdicts.map((v) => (v.verdict === "skip" ? [v.route, v.verdict, v.reason] : [v.route, v.verdict]));
}

function verdictOf([route, verdict, reason]: KeptVerdict): RouteVerdict {
  return verdict === "skip" ? { route, verdict, reason: reason ?? "" } : { route, verdict };
}

/** The kept verdicts with those that were parked replaced by what `again` says; `released` are these. */
export function concludeVerdicts(
  kept: readonly KeptVerdict[],
  again: (route: string) => RouteVerdict,
): { readonly verdicts: readonly RouteVerdict[]; readonly released: readonly RouteVerdict[]; readonly isDelivered: boolean } {
  const released: RouteVerdict[] = [];
  const verdicts = kept.map((one): RouteVerdict => {
    const [route, verdict] = one;
    if (verdict !== "park") return verdictOf(one);
    const settled = again(route);
    released.push(settled);
    return settled;
  });
  return { verdicts, released, isDelivered: verdicts.some(({ verdict }) => verdict === "deliver") };
}

/** Stands for the verdicts on an event that could not be planned. */
export const planningFailed: readonly RouteVerdict[] = Object.freeze([]);

/** What a fresh judgement says of a route that a kept plan parked; a route that is no more gets nothing. */
export function againBy(fresh: readonly RouteVerdict[]): (route: string) => RouteVerdict {
  const byRoute = new Map(fresh.map((verdict) => [verdict.route, verdict]));
  const reason = fresh === planningFailed ? "planning failed" : "route removed";
  return (route) => byRoute.get(route) ?? { route, verdict: "skip", reason };
}

/**
 * Verdicts as they are when an event that went nowhere is judged anew: what was planned stays, for a route never gets an
 * event twice (promise 2), and `added` are the deliveries that are new. `only`: for no other route.
 */
export function addVerdicts(
  kept: readonly KeptVerdict[],
  judged: readonly RouteVerdict[],
  only: string | undefined,
): { readonly verdicts: readonly RouteVerdict[]; readonly added: readonly RouteVerdict[] } {
  const known = new Map(kept.map((one) => [one[0], verdictOf(one)]));
  const added = judged.filter(
    ({ route, verdict }) => verdict === "deliver" && (only === undefined || route === only) && known.get(route)?.verdict !== "deliver",
  );
  for (const verdict of added) known.set(verdict.route, verdict);
  return { verdicts: [...known.values()], added };
}

/**
 * The plan of an event that comes while earlier ones of its message are being released: a route that held those back holds
 * this one back too, or it would overtake them. `unregistered`: what the routes make of it when nobody has registered it.
 */
export function heldBehind(plan: DeliveryPlan, unregistered: DeliveryPlan): DeliveryPlan {
  const verdicts = plan.verdicts.map((verdict, index) => {
    const before = unregistered.verdicts[index];
    return verdict.verdict === "deliver" && before?.verdict === "park" ? before : verdict;
  });
  const has = (word: RouteVerdict["verdict"]): boolean => verdicts.some(({ verdict }) => verdict === word);
  return { ...plan, disposition: has("deliver") ? "forwarded" : has("park") ? "parked" : plan.disposition, verdicts };
}

/** A plan with the exchange that a `mode: proxy` source makes at once: a delivery that no dispatcher picks up. */
export function withProxy(plan: DeliveryPlan, route: string | null): DeliveryPlan {
  if (route === null) return plan;
  return { ...plan, disposition: "forwarded", verdicts: [{ route, verdict: "deliver" }, ...plan.verdicts] };
}
