import { isProxyRoute } from "../../../model/delivery.ts";
import { dispositions } from "../../../model/plan.ts";
import type { Tally } from "../../audit.ts";
import type { KeptVerdict } from "../../rules.ts";
import type { Looked, LookedDelivery } from "./slices.ts";

interface JudgeParts {
  readonly tally: Tally<string>;
  /** Deliveries settled before this may be deleted; unix ms, null when none is. */
  readonly sweptBefore: () => number | null;
  /** The earliest time at which a parked event may have expired, unix ms. */
  readonly parkedSince: number;
}

/** Checks one event with its deliveries, and counts them. The embedded engine's audit has the same rules. */
export function createEventAudit({ tally, sweptBefore, parkedSince }: JudgeParts) {
  function offends(rule: Parameters<typeof tally.offence>[0], seq: number, route: string | null, what: string): false {
    tally.offence(rule, seq, route, what);
    return false;
  }

  /** An event is parked exactly while a route waits for a time or for its hydration. */
  function parking({ row, isHydrating }: Looked, parks: boolean): boolean {
    const { seq, parkedUntil } = row;
    if (parks !== (parkedUntil !== null)) {
      if (parks && isHydrating) return true;
      return offends(
        "parking broken",
        seq,
        null,
        parks ? "is parked, and nothing ends that" : "is parked until a time, and no route waits for it",
      );
    }
    if (parkedUntil === null || parkedUntil >= parkedSince) return true;
    return offends("parked too long", seq, null, `was parked until ${new Date(parkedUntil).toISOString()}`);
  }

  function disposition({ row }: Looked, verdicts: readonly KeptVerdict[]): boolean {
    // Without a subject the same reason means that registration was impossible.
    const isUntracked = row.subject !== null && verdicts.some(([, verdict, reason]) => verdict === "skip" && reason === "untracked");
    const has = (word: KeptVerdict[1]) => verdicts.some(([, verdict]) => verdict === word);
    const expected = has("deliver") ? "routed" : has("park") ? "parked" : isUntracked ? "ignored" : "filtered";
    if (expected === row.disposition) return true;
    return offends("wrong disposition", row.seq, null, `is ${row.disposition}; by the verdicts of its routes it is ${expected}`);
  }

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
    const { seq, plan } = row;
    if ((row.disposition === "quarantined" || row.disposition === "released") && plan === null) {
      const isBare =
        (row.release !== null) === (row.disposition === "released") &&
        row.fault !== null &&
        row.id === null &&
        row.kind === null &&
        row.subject === null;
      return (
        isBare || offends("wrong disposition", seq, null, `is ${row.disposition}, and has what only an event with a valid envelope has`)
      );
    }
    const isOwnId =
      idLeadsTo === seq ||
      offends("id repeated", seq, null, idLeadsTo === null ? "its id leads nowhere" : `its id leads to event ${idLeadsTo}`);
    if (row.disposition === "accepted") return accepted(looked) && isOwnId;
    if (verdicts === null) {
      return offends("event without plan", seq, null, plan === null ? "has no plan" : `has the plan ${plan}, which is not there`);
    }
    const isParkedRight = parking(
      looked,
      verdicts.some(([, verdict]) => verdict === "park"),
    );
    return disposition(looked, verdicts) && isParkedRight && isOwnId;
  }

  function delivery(looked: LookedDelivery, isPlanned: boolean): boolean {
    const { event: seq, route, attempts, tries } = looked;
    let isSound = isPlanned || offends("delivery not planned", seq, route, "is there, and the route's verdict was not to deliver");
    const wrong = contradiction(looked, isProxyRoute(route));
    if (wrong !== null) isSound = offends("delivery contradicts itself", seq, route, wrong);
    const astray = disorder(looked);
    if (astray !== null) isSound = offends("order broken", seq, route, astray);
    if (attempts !== tries) {
      isSound = offends("attempts miscounted", seq, route, `says ${attempts} attempts, and ${tries} were written down`);
    }
    return isSound;
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
      } else if (row.receivedAt < (sweptBefore() ?? Number.NEGATIVE_INFINITY)) {
        sums.swept += 1;
        continue;
      } else offends("delivery missing", row.seq, route, "was to be delivered, and there is no delivery");
      sums.unaccounted += 1;
      allSound = false;
    }
    for (const one of deliveries) if (!planned.has(one.route)) allSound = delivery(one, false) && allSound;
    tally.event(row.source, row.receivedAt, dispositions.indexOf(row.disposition), allSound, duplicates, conflicts);
  };
}

/** Why the stored delivery contradicts the lists it is in; null when it does not. */
function contradiction({ state, attempts, places, fields }: LookedDelivery, isProxied: boolean): string | null {
  const inLists = places.replace(/[nb]/g, "");
  switch (state) {
    case 0:
      if (fields.has("t")) return "waits, and is settled";
      // A proxied exchange settles itself.
      if (isProxied) return inLists === "p" ? null : "is an exchange under way, and no list has it";
      if (!fields.has("n")) return "waits for no time";
      return inLists === "d" || inLists === "l" ? null : `waits, and ${inLists === "" ? "nobody would send it" : "is in wrong lists"}`;
    case 1:
      if (!fields.has("o")) return "is held, and nothing orders it";
      if (fields.has("n") || fields.has("t")) return "is held, and has a time";
      return inLists === "h" ? null : "is held, and the lists say otherwise";
    case 2:
      if (!fields.has("t") || fields.has("n")) return "is delivered, and its times say otherwise";
      if (inLists !== "") return "is delivered, and a list still has it";
      return attempts === 0 ? "is delivered without an attempt" : null;
    case 3:
      if (!fields.has("t") || fields.has("n")) return "is dead, and its times say otherwise";
      if (inLists !== "x") return "is dead, and the lists say otherwise";
      return fields.has("r") ? null : "is dead for no reason";
    default:
      return `has the unknown state ${state}`;
  }
}

/** Promise 3: of the open deliveries of a message on a route exactly one is sent, all others are held behind it. Null when true. */
function disorder({ state, places, fields }: LookedDelivery): string | null {
  if (!fields.has("o")) return null;
  if (state === 0) return places.includes("n") ? null : "goes out, and another of its message is said to";
  if (state === 1) return places.includes("b") ? null : "is held behind none that goes out";
  return places.includes("n") ? "is settled, and others wait for it" : null;
}
