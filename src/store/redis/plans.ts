import { createdAtOf, isTruncated } from "../../model/envelope.ts";
import type { ReceivedEvent } from "../../model/event.ts";
import type { DeliveryPlan, Disposition, RouteVerdict } from "../../model/plan.ts";
import { nothingTracked, planArrival } from "../../track/planning.ts";
import type { DueDelivery, Rules } from "../rules.ts";

import { type Counts, type Operation, pushOperations } from "./commit.ts";
import { dispositionCode, type EventRow, type PlanText, planText, writeEventRow } from "./event-rows.ts";
import { countDisposition, countsOfEvent, countTracking } from "./history.ts";
import { type Keys, orderKey, padSeq, placesOfSubject, type SubjectName } from "./keys.ts";
import { readSubjectRow, rowJson, rowVersion, unseenSubject, writeSubjectRow } from "./rows.ts";
import type { Argument } from "./script.ts";
import { indexSubject, subjectNameOf, trackEvent } from "./subjects.ts";
import type { Transaction } from "./transact.ts";

/** What else the step does. */
export interface StepExtras {
  /** Time of planning, unix ms: nothing is parked until a time before it. */
  readonly at: number;
  /** The route of a `mode: proxy` source, which delivers at once, without a dispatcher. */
  readonly proxyRoute: string | null;
  /** The event is truncated and waits for hydration. */
  readonly isHydrating: boolean;
  readonly operations: readonly Operation[];
  /** A body to be stored in a key of its own; null: it is in the event's row, or stored already. */
  readonly separate: Buffer | null;
}

/** A tracked and planned event, as lua/commit.lua reads it. */
export interface PlannedEvent {
  readonly subject: SubjectName | null;
  readonly row: EventRow;
  /** The subject's row after the event; `""`: unchanged. */
  readonly nextRow: string;
  readonly plan: PlanText;
  /** The arguments of lua/commit.lua, after those that come first in a step. */
  readonly list: readonly Argument[];
  readonly form: { readonly routes: readonly string[]; readonly counts: Counts; readonly isTimed: boolean; readonly isRare: boolean };
  /** Names of the strings that the script reads, without the event's own. */
  readonly reads: readonly string[];
  /** The due deliveries, by the script's result. */
  due(seq: number, result: string): DueDelivery[];
}

/** What the rules need of an event besides its row. */
export type EventToPlan = Pick<ReceivedEvent, "envelope" | "subject">;

interface PlannedDelivery {
  readonly route: string;
  /** Empty when unordered. For a proxied exchange, its start, and `at` is empty. */
  readonly order: string;
  readonly at: string;
}

/**
 * Tracks and plans an event, in any process, from the subject's row as this process last saw it. `arrived` is the event's
 * row as it was accepted; `stored` the subject's row with its version, `""` for none.
 */
export function createTrackAndPlan(base: string, rules: Rules, version: () => string) {
  return function trackAndPlan(event: EventToPlan, arrived: EventRow, stored: string, extras: StepExtras): PlannedEvent {
    const { envelope, subject } = event;
    const { account, source, origin, receivedAt, subject: name } = arrived;
    const applied = apply(event, arrived, stored);
    const { storedSubject, tracked } = applied;
    const tracking = tracked?.tracking ?? nothingTracked;
    const routed = {
      event: envelope.event,
      account,
      source,
      status: arrived.status,
      errorCode: arrived.errorCode,
      data: envelope.data,
      truncated: isTruncated(envelope),
      hydrating: extras.isHydrating,
    };
    const isBehind = storedSubject !== null && storedSubject.releasedTo !== null;
    const plan = planArrival(rules, { event: routed, tracking, error: applied.error, isBehind, proxyRoute: extras.proxyRoute });
    const isParked = plan.verdicts.some(({ verdict }) => verdict === "park") && !extras.isHydrating;
    const parkedUntil = isParked ? Math.max(receivedAt + rules.parkFor, extras.at) : null;
    const text = planText(plan);
    // A new version of the subject, so that a concurrent release sees the parked event.
    const next = tracked?.next ?? (isParked ? storedSubject : null);
    const nextRow = next === null ? "" : version() + writeSubjectRow(next);
    const deliveries = plannedDeliveries(plan, name, receivedAt, extras.proxyRoute);
    // The polling lists change when a run ends, and when an event arrives for a missing message.
    const isMoved = subject.type === "run" || storedSubject?.isMissing === true;
    const indexed = isMoved && name !== null && next !== null ? indexSubject(base, name, storedSubject, next) : [];
    const operations = [...extras.operations, ...indexed];
    const isRare = isParked || plan.disposition === "ignored" || origin !== "webhook" || extras.separate !== null || operations.length > 0;

    const list: Argument[] = [name ?? "", subjectVersion(name, stored), nextRow];
    const reads = name === null ? [] : [name];
    const routes: string[] = [];
    for (const { route, order, at } of deliveries) {
      routes.push(route);
      list.push(order, at);
      if (order !== "" && at !== "") reads.push(`o:${route}:${order}`);
    }
    const { counts, sample } = countTracking(arrived, tracking, tracked?.next ?? null);
    if (sample !== null) list.push(sample.join(" "));
    if (isRare) {
      const parkedText = parkedUntil === null ? "" : String(parkedUntil);
      list.push(dispositionCode(plan.disposition), parkedText, origin === "webhook" ? "" : account, String(receivedAt));
      list.push(extras.separate ?? "");
      pushOperations(list, operations);
    }
    const row: EventRow = {
      ...arrived,
      previousStatus: tracking.previousStatus,
      moved: tracking.transition !== null,
      disposition: plan.disposition,
      plan: text.digest,
      parkedUntil,
      fault: plan.fault ?? null,
    };
    return {
      subject: name,
      row,
      nextRow,
      plan: text,
      list,
      form: { routes, counts: [...countsOfEvent(row, 1), ...counts], isTimed: sample !== null, isRare },
      reads,
      due(seq, result) {
        const states = result.indexOf(" ") + 1;
        return deliveries.flatMap(({ route, at }, n): DueDelivery[] =>
          at === "" || (states > 0 && result[states + n] !== "0") ? [] : [{ route, event: seq, at: Number(at) }],
        );
      },
    };
  };

  /** Tracks an event. If that fails, the subject stays as it was; an unknown subject is created as seen. */
  function apply({ subject }: EventToPlan, { receivedAt, createdAt, subject: name }: EventRow, stored: string) {
    try {
      const storedSubject = stored === "" ? null : readSubjectRow(rowJson(stored));
      return {
        storedSubject,
        tracked: trackEvent(rules, { subject, receivedAt }, storedSubject, createdAt ?? receivedAt),
        error: undefined,
      };
    } catch (error) {
      const next = stored === "" && name !== null ? { ...unseenSubject, updatedAt: receivedAt } : null;
      return { storedSubject: null, tracked: { tracking: nothingTracked, next }, error };
    }
  }

  function plannedDeliveries(plan: DeliveryPlan, subject: SubjectName | null, now: number, proxyRoute: string | null): PlannedDelivery[] {
    const planned: PlannedDelivery[] = [];
    let order: string | null = null;
    for (const { route, verdict } of plan.verdicts) {
      if (verdict !== "deliver") continue;
      if (route === proxyRoute) {
        planned.push({ route, order: String(now), at: "" });
        continue;
      }
      const { ordered, firstWait } = rules.timing(route);
      if (ordered && subject !== null) order ??= orderKey(subject);
      planned.push({ route, order: ordered && order !== null ? order : "", at: String(now + firstWait) });
    }
    return planned;
  }
}

/** The version of a subject's stored row; for a new subject the lists of its number, which begin with a blank each. */
export function subjectVersion(name: SubjectName | null, stored: string): string {
  if (stored !== "" || name === null) return rowVersion(stored);
  return placesOfSubject(name)
    .map((place) => ` ${place}`)
    .join("");
}

/** The row of an event that is only accepted. */
export function arrivedRow(event: ReceivedEvent): EventRow {
  const { account, source, origin, envelope, subject, receivedAt, secret, headers, body } = event;
  return {
    subject: subjectNameOf(event),
    account,
    source,
    id: envelope.id,
    kind: envelope.event,
    origin,
    receivedAt,
    createdAt: createdAtOf(envelope, receivedAt),
    secret,
    status: subject.type === "none" ? null : subject.status,
    previousStatus: null,
    moved: false,
    errorCode: subject.type === "message" ? subject.errorCode : null,
    disposition: "accepted",
    plan: null,
    parkedUntil: null,
    fault: null,
    headers: someHeaders(headers),
    size: body.length,
    release: event.releaseOf ?? null,
  };
}

/** Name of the key that maps an event's id to its seq. */
export const idKey = ({ account, envelope }: ReceivedEvent): string => `id:${account}:${envelope.id}`;

/** Source and secret that verified it; `""`: none was needed. */
export const usageName = ({ source, secret }: Pick<ReceivedEvent, "source" | "secret">): string =>
  secret === null ? "" : `${source}:${secret}`;

export function someHeaders(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> | null {
  for (const _ in headers) return headers;
  return null;
}

interface Conclusion {
  readonly disposition: Disposition;
  readonly verdicts: readonly RouteVerdict[];
}

/**
 * Writes the final disposition of an event, which is no longer parked, and updates its indexes. `row` must have been read
 * by this step. Passing the same `verdicts` object again is cheaper than an equal one.
 */
export function concludeEvent(tx: Transaction, keys: Keys, seq: number, row: EventRow, { disposition, verdicts }: Conclusion): void {
  const { base } = keys;
  const plan = planOf(verdicts);
  tx.call("HSETNX", `${base}plans`, plan.digest, plan.verdicts);
  tx.rewrite(keys.event(seq), writeEventRow({ ...row, disposition, plan: plan.digest, parkedUntil: null, fault: null }));
  countDisposition(tx, row, disposition);
  if (row.parkedUntil !== null) {
    tx.call("ZREM", `${base}parked`, padSeq(seq));
    if (row.subject !== null) tx.call("ZREM", `${base}pk:${row.subject}`, String(seq));
  }
  if (disposition === "ignored") tx.call("ZADD", `${base}ignored`, String(row.receivedAt), String(seq));
  else if (row.disposition === "ignored") tx.call("ZREM", `${base}ignored`, String(seq));
}

/**
 * Plans the deliveries of `verdicts`. Those that are not held are added to `due` when the step is committed. `replays`: how
 * often these deliveries were replayed before.
 */
export function deliverAll(tx: Transaction, rules: Rules, { seq, subject, verdicts, at, replays = 0 }: Planned, due: DueDelivery[]): void {
  for (const { route, verdict } of verdicts) {
    if (verdict !== "deliver") continue;
    const { ordered, firstWait } = rules.timing(route);
    const order = ordered && subject !== null ? orderKey(subject) : "";
    const delivery = { route, event: seq, at: at + firstWait };
    tx.operate(["deliver", String(seq), route, order, String(delivery.at), String(replays)], (state) => {
      if (state === "0") due.push(delivery);
    });
  }
}

interface Planned {
  readonly seq: number;
  readonly subject: string | null;
  readonly verdicts: readonly RouteVerdict[];
  /** Unix ms. */
  readonly at: number;
  readonly replays?: number;
}

const texts = new WeakMap<readonly RouteVerdict[], ReturnType<typeof planText>>();

function planOf(verdicts: readonly RouteVerdict[]): ReturnType<typeof planText> {
  const known = texts.get(verdicts);
  if (known !== undefined) return known;
  // Only the verdicts are stored; the disposition is in the event's row.
  const text = planText({ disposition: "routed", verdicts });
  texts.set(verdicts, text);
  return text;
}
