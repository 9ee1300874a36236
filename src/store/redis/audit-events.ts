import { deliveryStates, isProxyRoute } from "../../model/delivery.ts";
import { dispositions } from "../../model/states.ts";
import { isParked } from "../../track/parking.ts";
import { createRowRules, deliveryFault, dispositionBy } from "../audit/rules.ts";
import type { Tally } from "../audit/tally.ts";
import type { Looked, LookedDelivery } from "./audit-slices.ts";

interface JudgeParts {
  readonly tally: Tally<string>;
  /** Deliveries settled before this may be deleted; unix ms, null when none is. */
  readonly deletedBefore: () => number | null;
  /** The earliest time at which a parked event may have expired, unix ms. */
  readonly parkedSince: number;
}

/** Checks one event with its deliveries, and counts them. The embedded engine's audit has the same rules. */
export function createEventAudit({ tally, deletedBefore, parkedSince }: JudgeParts) {
  const rules = createRowRules(tally, parkedSince);
  const { offends } = rules;

  /** The unplanned list has exactly the events that are only accepted. */
  function turn({ row, isWaiting }: Looked): boolean {
    if (isWaiting === (row.disposition === "accepted")) return true;
    const what = isWaiting ? `waits to be planned, and is ${row.disposition}` : "is only accepted, and does not wait to be planned";
    return offends("planning broken", row.seq, null, what);
  }

  /** An accepted event has nothing that only planning writes. */
  function accepted({ row, plannedPlaces: places }: Looked): boolean {
    const { seq, plan, parkedUntil, previousStatus, moved } = row;
    const isBare = plan === null && parkedUntil === null && previousStatus === null && !moved;
    if (!isBare) return offends("wrong disposition", seq, null, "is only accepted, and has what only a planned event has");
    if (places.length === 0) return true;
    return offends("wrong disposition", seq, null, `is only accepted, and is among ${places.join(" and ")}`);
  }

  function event(looked: Looked): boolean {
    const { row, verdicts, idLeadsTo } = looked;
    const { seq, plan, disposition } = row;
    if ((disposition === "quarantined" || disposition === "released") && plan === null) {
      const isReleased = (row.release !== null) === (disposition === "released");
      const isBare = isReleased && row.fault !== null && row.id === null && row.kind === null && row.subject === null;
      return rules.body(seq, disposition, isBare);
    }
    const isOwnId =
      idLeadsTo === seq ||
      offends("id repeated", seq, null, idLeadsTo === null ? "its id leads nowhere" : `its id leads to event ${idLeadsTo}`);
    if (disposition === "accepted") return accepted(looked) && isOwnId;
    if (verdicts === null) return rules.withoutPlan(seq, plan);
    const isParkedRight = rules.parking(seq, isParked(verdicts), row.parkedUntil, () => looked.isHydrating);
    return rules.disposition(seq, disposition, dispositionBy(verdicts, row.subject !== null)) && isParkedRight && isOwnId;
  }

  function delivery(looked: LookedDelivery, isPlanned: boolean): boolean {
    const { event: seq, route, state, attempts, fields } = looked;
    const isProxied = isProxyRoute(route);
    const facts = {
      state,
      attempts,
      isOrdered: fields.has("o"),
      hasNextAt: fields.has("n"),
      hasSettledAt: fields.has("t"),
      hasReason: fields.has("r"),
    };
    const isSound = rules.delivery(looked, isPlanned, deliveryFault(facts, isProxied) ?? listFault(looked, isProxied));
    const astray = disorder(looked);
    return astray === null ? isSound : offends("order broken", seq, route, astray);
  }

  return function judge(looked: Looked): void {
    const { row, verdicts, deliveries, duplicates, conflicts } = looked;
    const isInTurn = turn(looked);
    let allSound = event(looked) && isInTurn;
    const planned = new Set((verdicts ?? []).flatMap(([route, verdict]) => (verdict === "deliver" ? [route] : [])));
    const found = new Map(deliveries.map((one) => [one.route, one]));
    for (const route of planned) {
      const sums = tally.route(route);
      sums.planned += 1;
      const one = found.get(route);
      if (one !== undefined) {
        if (delivery(one, true)) {
          tally.state(sums, one.state);
          continue;
        }
      } else if (row.receivedAt < (deletedBefore() ?? Number.NEGATIVE_INFINITY)) {
        sums.deleted += 1;
        continue;
      } else rules.missingDelivery(row.seq, route);
      sums.unaccounted += 1;
      allSound = false;
    }
    for (const one of deliveries) if (!planned.has(one.route)) allSound = delivery(one, false) && allSound;
    tally.event(row.source, row.receivedAt, dispositions.indexOf(row.disposition), allSound, duplicates, conflicts);
  };
}

/** Why the state of a delivery contradicts the lists it is in. Null: it does not. */
function listFault({ state, places }: LookedDelivery, isProxied: boolean): string | null {
  const inLists = places.replace(/[nbc]/g, "");
  return stateFault(state, inLists, isProxied) ?? (places.includes("c") ? "is in a wrong list by cause, or in none" : null);
}

function stateFault(state: number, inLists: string, isProxied: boolean): string | null {
  switch (deliveryStates[state]) {
    case "waiting":
      if (isProxied) return inLists === "p" ? null : "is an exchange under way, and no list has it";
      return inLists === "d" || inLists === "l" ? null : `waits, and ${inLists === "" ? "nobody would send it" : "is in wrong lists"}`;
    case "held":
      return inLists === "h" ? null : "is held, and the lists say otherwise";
    case "delivered":
      return inLists === "" ? null : "is delivered, and a list still has it";
    default:
      return inLists === "x" ? null : "is dead, and the lists say otherwise";
  }
}

/** Promise 3: of the open deliveries of a message on a route exactly one is sent, all others are held behind it. Null when true. */
function disorder({ state, places, fields }: LookedDelivery): string | null {
  if (!fields.has("o")) return null;
  if (state === 0) return places.includes("n") ? null : "goes out, and another of its message is said to";
  if (state === 1) return places.includes("b") ? null : "is held behind none that goes out";
  return places.includes("n") ? "is settled, and others wait for it" : null;
}
