import type { AuditRule } from "../../model/audit.ts";
import { type DeliveryState, dispositions } from "../../model/states.ts";
import {
  isStatus,
  messageStatuses,
  runStatuses,
  runStatusOf,
  type StatusRule,
  supersedes,
} from "../../model/statuses.ts";
import { wordOfSettled } from "../schema/codes.ts";
import { never, queueState, settledState } from "../schema/tables.ts";
import {
  type AttemptRow,
  type EventRow,
  isParkedRow,
  type OpenRow,
  type PlanFacts,
  type SettledRow,
} from "./slices.ts";
import type { Tally } from "./tally.ts";

export interface Audited {
  readonly row: EventRow;
  readonly facts: PlanFacts | null;
  readonly settled: readonly SettledRow[];
  readonly open: readonly OpenRow[];
  readonly attempts: readonly AttemptRow[];
  readonly isHydrating: boolean;
}

/** Deliveries settled before `deletedBefore` may have been deleted. Null: none was. */
export function createEventAudit(tally: Tally, deletedBefore: number | null, parkedSince: number) {
  function offends(rule: AuditRule, event: number, route: string | null, what: string): false {
    tally.offence(rule, event, route, what);
    return false;
  }

  /**
   * An event is parked until a time or until its hydration ends, and only while a route waits for
   * it.
   */
  function isParkedRight(
    { row: { seq }, open, isHydrating }: Audited,
    routes: readonly string[],
  ): boolean {
    const times = routes.map(
      (route) => open.find((one) => one.route === route && isParkedRow(one))?.next_at ?? null,
    );
    const isWhole = !times.includes(null);
    const until = isWhole ? Math.min(...times.filter((at) => at !== null)) : never;
    if (until < never) {
      return (
        until >= parkedSince ||
        offends("parked too long", seq, null, `was parked until ${new Date(until).toISOString()}`)
      );
    }
    return (
      routes.length === 0 ||
      (isWhole && isHydrating) ||
      offends("parking broken", seq, null, "is parked, and nothing ends that")
    );
  }

  function isEventSound(audited: Audited): boolean {
    const { row, facts } = audited;
    const { seq, plan, subject } = row;
    const word = dispositions[row.disposition] ?? `word ${row.disposition}`;
    if ((word === "quarantined" || word === "unassigned" || word === "released") && plan === null) {
      const isBare = row.isBare === 1 && (row.release !== null) === (word === "released");
      return (
        isBare ||
        offends(
          "wrong disposition",
          seq,
          null,
          `is ${word}, and has what only an event with a valid envelope has`,
        )
      );
    }
    if (facts === null)
      return offends(
        "event without plan",
        seq,
        null,
        plan === null ? "has no plan" : `has the plan ${plan}, which is not there`,
      );
    const isParked = isParkedRight(audited, facts.park);
    const isForward =
      movesForward(row) ||
      offends("status moved back", seq, null, `moved from ${row.previousStatus} to ${row.status}`);
    const expected = subject === null ? facts.withoutSubject : facts.withSubject;
    const isExpected =
      word === expected ||
      offends(
        "wrong disposition",
        seq,
        null,
        `is ${word}; by the verdicts of its routes it is ${expected}`,
      );
    return isExpected && isParked && isForward;
  }

  function checkDelivery(
    { row, settled, open, attempts }: Audited,
    route: string,
    isPlanned: boolean,
  ): DeliveryState | null {
    const [mine, queued] = [settled.find(isOn(route)), open.filter(isOn(route))];
    let isSound = isPlanned || offends("delivery not planned", row.seq, route, notPlanned);
    const fault = mine === undefined ? openFault(queued) : settledFault(mine, row);
    if (fault !== null) isSound = offends("delivery contradicts itself", row.seq, route, fault);
    const stored =
      attempts.filter(isOn(route)).length + (mine === undefined || mine.at === null ? 0 : 1);
    const counted = (mine ?? queued[0])?.attempts ?? 0;
    if (counted !== stored)
      isSound = offends(
        "attempts miscounted",
        row.seq,
        route,
        `says ${counted} attempts, and ${stored} were written down`,
      );
    if (!isSound) return null;
    if (mine !== undefined) return wordOfSettled(mine.state);
    return queued[0]?.state === queueState.held ? "held" : "waiting";
  }

  function unplanned({ facts, settled, open }: Audited): string[] {
    const deliver = new Set(facts?.deliver);
    const park = new Set(facts?.park);
    return [...settled, ...open.filter((row) => park.has(row.route) && !isParkedRow(row))].flatMap(
      ({ route }) => (deliver.has(route) ? [] : [route]),
    );
  }

  return function auditEvent(audited: Audited): void {
    const { row, facts, settled, open, attempts } = audited;
    const { seq, source, receivedAt, disposition, duplicates, conflicts } = row;
    let isSound = isEventSound(audited);
    for (const route of facts?.deliver ?? []) {
      const sums = tally.route(route);
      sums.planned += 1;
      const isThere = settled.some(isOn(route)) || open.some(isOn(route));
      if (!isThere && receivedAt < (deletedBefore ?? Number.NEGATIVE_INFINITY)) {
        sums.deleted += 1;
        continue;
      }
      const state = isThere ? checkDelivery(audited, route, true) : null;
      if (!isThere)
        offends("delivery missing", seq, route, "was to be delivered, and there is no delivery");
      sums[state ?? "unaccounted"] += 1;
      isSound &&= state !== null;
    }
    for (const route of unplanned(audited))
      isSound = checkDelivery(audited, route, false) !== null && isSound;
    for (const [route, { length }] of Map.groupBy(attempts, (one) => one.route)) {
      if (!settled.some(isOn(route)) && !open.some(isOn(route)))
        strayAttempts(tally, seq, route, length);
    }
    tally.event(source, receivedAt, disposition, isSound, duplicates, conflicts);
  };
}

export const notPlanned = "is there, and the route's verdict was not to deliver";

function movesForward({ moved, kind, previousStatus, status }: EventRow): boolean {
  if (moved !== 1) return true;
  return runStatusOf(kind ?? "") === null
    ? follows(messageStatuses, previousStatus, status)
    : follows(runStatuses, previousStatus, status);
}

function follows<S extends string>(
  rules: Readonly<Record<S, StatusRule>>,
  from: string | null,
  to: string | null,
): boolean {
  return (
    isStatus(rules, to) && (from === null || (isStatus(rules, from) && supersedes(rules, from, to)))
  );
}

const isOn = (route: string) => (row: { readonly route: string }) => row.route === route;

export function strayAttempts(tally: Tally, event: number, route: string, count: number): void {
  tally.offence(
    "attempt without delivery",
    event,
    route,
    `${count} written down for no delivery`,
    count,
  );
}

interface Placed {
  readonly seq: number;
  readonly subject: number | null;
}

export const isInLane = (lane: number, { seq, subject }: Placed): boolean =>
  lane === -seq || lane === subject;

function settledFault({ state, attempts, reason, lane }: SettledRow, event: Placed): string | null {
  if (!isInLane(lane, event)) return otherLane;
  if (state === settledState.delivered)
    return attempts === 0 ? "is delivered without an attempt" : null;
  if (state === settledState.dead) return reason === null ? "is dead for no reason" : null;
  return unknown(state);
}

function openFault(rows: readonly OpenRow[]): string | null {
  const [row] = rows;
  if (row === undefined || rows.length > 1) return "waits twice";
  const { state, lane, next_at: nextAt } = row;
  if (state === queueState.waiting || state === queueState.exchange)
    return nextAt === never ? "waits for no time" : null;
  if (state === queueState.parked) return "is parked, and the route's verdict was to deliver";
  if (state !== queueState.held) return unknown(state);
  if (lane < 0) return "is held, and nothing orders it";
  return nextAt === never ? null : "is held, and has a time";
}

export const otherLane = "is in the lane of another message";
export const alsoSettled = "waits, and is settled";
const unknown = (state: number): string => `has the unknown state ${state}`;
