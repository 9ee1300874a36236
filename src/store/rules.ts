import { isTruncated, parseEnvelope } from "../model/envelope.ts";
import type { ReceivedEvent, TrackedSubject } from "../model/event.ts";
import type { HydrationStart } from "../model/hydration.ts";
import { maskText } from "../model/mask.ts";
import type { DeliveryPlan, RoutedEvent, RouteVerdict } from "../model/plan.ts";
import type { MessageState, Observation, RunState, Step, TrackedState, Tracking } from "../model/tracking.ts";

/**
 * The pure functions of tracking and routing that the store calls within its own step, so that tracking and planning are
 * atomic. `plan` and the two settings change when the settings are reloaded.
 */
export interface Rules {
  stepMessage(state: MessageState, seen: Observation): Step<MessageState>;
  stepRun(state: RunState, seen: Observation): Step<RunState>;
  plan(event: RoutedEvent, tracking: Tracking): DeliveryPlan;
  /** Reports an event that `plan` or a step failed on, and that is set aside. */
  failed?(error: unknown, event: Pick<RoutedEvent, "event" | "account" | "source">): void;
  /** How the hydration of a truncated event begins. Null: it needs none. */
  hydration(event: { readonly event: string; readonly account: string; readonly hasSubject: boolean }): HydrationStart | null;
  /** Whether the route delivers the events of a message in order, and the wait before a first attempt in ms. */
  timing(route: string): { readonly ordered: boolean; readonly firstWait: number };
  /** How long an event may stay parked, in milliseconds. */
  readonly parkFor: number;
}

/** A waiting delivery and when it is due. `event` is the event's seq, `at` unix ms. */
export interface DueDelivery {
  readonly route: string;
  readonly event: number;
  readonly at: number;
}

/** The disposition is `accepted` while the event waits for a worker to plan it. */
export type AcceptOutcome =
  | { readonly result: "accepted"; readonly seq: number; readonly disposition: string; readonly due: readonly DueDelivery[] }
  /** `conflict`: the id is known with other bytes. */
  | { readonly result: "duplicate"; readonly seq: number; readonly conflict: boolean };

/** The result of planning an accepted event. */
export interface Planned {
  readonly seq: number;
  readonly source: string;
  readonly disposition: string;
  /** Why planning failed. Such an event is set aside. */
  readonly fault: string | null;
  readonly due: readonly DueDelivery[];
}

export interface PlannedSome {
  /** Planned by this process, in order. */
  readonly planned: readonly Planned[];
  /** Seqs removed from the list because their rows are missing or unreadable. */
  readonly lost: readonly string[];
  /** `others`: other processes planned everything that was read. */
  readonly left: "none" | "some" | "others";
}

/** The registered facts of a message or run. */
export type Facts = Pick<Tracking, "subject" | "tracked" | "id" | "reference" | "metadata">;

/** The tracking of an event without a message or run. */
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

/** `registered`: null when it was never registered. `metadata` is a JSON object. */
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

/** The facts of an unregistered message or run. */
export function untrackedFacts(subject: Facts["subject"]): Facts {
  return { subject, tracked: false, id: null, reference: null, metadata: null };
}

/**
 * Applies an event to the state of its message or run, whose registered facts are `facts`. `at` is the event's own time in
 * unix ms. Returns the same `state` object when nothing changed.
 */
export function stepSubject(
  rules: Pick<Rules, "stepMessage" | "stepRun">,
  subject: TrackedSubject,
  before: TrackedState<string>,
  facts: Facts,
  at: number,
): { readonly state: TrackedState<string>; readonly tracking: Tracking } {
  const { status } = subject;
  const isMessage = subject.type === "message";
  const { state, transition }: Step<TrackedState<string>> = isMessage
    ? rules.stepMessage(before as MessageState, { status, error: subject.errorCode, at })
    : rules.stepRun(before as RunState, { status, error: subject.error, at });
  const errorCode = isMessage ? state.error : null;
  return { state, tracking: { ...facts, previousStatus: before.status, status: state.status, errorCode, transition } };
}

/** Status and error code that routes match. */
export function routedWords({ subject }: ReceivedEvent): { readonly status: string | null; readonly errorCode: string | null } {
  if (subject.type === "message") return { status: subject.status, errorCode: subject.errorCode };
  if (subject.type === "run") return { status: subject.status, errorCode: null };
  return { status: null, errorCode: null };
}

/** Plans an event. An event that planning fails on is set aside with the reason, so that others are not affected. */
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

/** Masked, because the text of an error may quote the event. */
export function planningFault(error: unknown): string {
  return `could not be planned: ${maskText(error instanceof Error ? error.message : String(error)).slice(0, 300)}`;
}

/** A stored event as routes match it again. */
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

/** The verdicts of the current routes on a stored event, with the current facts. Null: its body is not an envelope. */
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
 * The verdicts on a truncated event when hydration ends without finding its message. Null: its body is not an envelope,
 * and it goes to every route that parked it.
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

/** A stored verdict: `[route, verdict, reason?]`. */
export type KeptVerdict = readonly [route: string, verdict: RouteVerdict["verdict"], reason?: string];

export function keptVerdicts({ verdicts }: Pick<DeliveryPlan, "verdicts">): KeptVerdict[] {
  return verdicts.map((v) => (v.verdict === "skip" ? [v.route, v.verdict, v.reason] : [v.route, v.verdict]));
}

function verdictOf([route, verdict, reason]: KeptVerdict): RouteVerdict {
  return verdict === "skip" ? { route, verdict, reason: reason ?? "" } : { route, verdict };
}

/** The stored verdicts with every `park` replaced by the verdict of `again`. `released`: the replaced ones. */
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

/** The verdicts of an event that could not be planned. */
export const planningFailed: readonly RouteVerdict[] = Object.freeze([]);

/** Looks up the new verdict of a route that parked the event. A removed route is skipped. */
export function againBy(fresh: readonly RouteVerdict[]): (route: string) => RouteVerdict {
  const byRoute = new Map(fresh.map((verdict) => [verdict.route, verdict]));
  const reason = fresh === planningFailed ? "planning failed" : "route removed";
  return (route) => byRoute.get(route) ?? { route, verdict: "skip", reason };
}

/**
 * The verdicts after a backfill. Planned deliveries stay, because a route never gets an event twice (promise 2). `added`
 * are the new deliveries. `only`: limits them to one route.
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
 * The plan of an event that arrives while earlier ones of its message are being released. A route that parked those parks
 * this one too, or it would overtake them. `unregistered`: its plan without a registration.
 */
export function heldBehind(plan: DeliveryPlan, unregistered: DeliveryPlan): DeliveryPlan {
  const verdicts = plan.verdicts.map((verdict, index) => {
    const before = unregistered.verdicts[index];
    return verdict.verdict === "deliver" && before?.verdict === "park" ? before : verdict;
  });
  const has = (word: RouteVerdict["verdict"]): boolean => verdicts.some(({ verdict }) => verdict === word);
  return { ...plan, disposition: has("deliver") ? "routed" : has("park") ? "parked" : plan.disposition, verdicts };
}

/** Adds the exchange that a `mode: proxy` source makes at once, as a delivery that no dispatcher picks up. */
export function withProxy(plan: DeliveryPlan, route: string | null): DeliveryPlan {
  if (route === null) return plan;
  return { ...plan, disposition: "routed", verdicts: [{ route, verdict: "deliver" }, ...plan.verdicts] };
}
