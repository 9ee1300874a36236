import { isProxyRoute } from "../../../event/proxy-route.ts";
import type { Tally } from "../../audit/tally.ts";
import { dispositionCode, dispositionList } from "../codes.ts";
import { hydrationCode } from "../hydration-codes.ts";
import type { Names } from "../names.ts";
import type { Db } from "../open.ts";
import { nameIn } from "./name-in.ts";
import { createPlanFacts } from "./plan-facts.ts";
import { contradiction, type DeliveryRow, deliveryColumn, type EventRow, eventColumn, eventFlag } from "./slice.ts";

export interface JudgeParts {
  readonly names: Names;
  readonly tally: Tally<number>;
  /** Deliveries settled before this may have been swept; unix ms, null when none was. */
  readonly sweptBefore: () => number | null;
  /** A parked event's time may not have been over before this; unix ms. */
  readonly parkedSince: number;
}

/** Holds one event with its deliveries to the rules, and counts them. */
export function createJudge(db: Db, { names, tally, sweptBefore, parkedSince }: JudgeParts) {
  const factsOf = createPlanFacts(db, names);
  const parkedUntil = db.prepare<[number], number | null>("SELECT parked_until FROM events WHERE seq = ?").pluck();
  const isHydrating = db.prepare<[number], number>(`SELECT 1 FROM hydrations WHERE event = ? AND state = ${hydrationCode.waiting}`).pluck();
  const proxied = new Map<number, boolean>();

  function isProxied(route: number): boolean {
    let known = proxied.get(route);
    if (known === undefined) {
      known = isProxyRoute(nameIn(names, route));
      proxied.set(route, known);
    }
    return known;
  }

  function quarantine(seq: number, flags: number, disposition: number): boolean {
    const isReleased = disposition === dispositionCode.released;
    if (flags === eventFlag.fault + (isReleased ? eventFlag.release : 0)) return true;
    const word = isReleased ? "released" : "quarantined";
    tally.offence("wrong disposition", seq, null, `is ${word}, and has what only an event with a valid envelope has`);
    return false;
  }

  /** A route that waits for it waits for a time, or for its hydration; and nothing else does. */
  function parking(seq: number, parks: boolean, hasTime: boolean): boolean {
    if (parks === hasTime) {
      if (!hasTime) return true;
      const until = parkedUntil.get(seq) ?? Number.POSITIVE_INFINITY;
      if (until >= parkedSince) return true;
      tally.offence("parked too long", seq, null, `was parked until ${new Date(until).toISOString()}`);
      return false;
    }
    if (parks && isHydrating.get(seq) !== undefined) return true;
    tally.offence(
      "parking broken",
      seq,
      null,
      parks ? "is parked, and nothing ends that" : "is parked until a time, and no route waits for it",
    );
    return false;
  }

  function soundEvent(row: EventRow): { readonly isSound: boolean; readonly deliver: readonly number[] } {
    const seq = row[eventColumn.seq] as number;
    const flags = row[eventColumn.flags] as number;
    const plan = row[eventColumn.plan] as number | null;
    const disposition = row[eventColumn.disposition] as number;
    const isBody = disposition === dispositionCode.quarantined || disposition === dispositionCode.released;
    if (isBody && plan === null) return { isSound: quarantine(seq, flags, disposition), deliver: none };
    const facts = plan === null ? null : factsOf(plan);
    if (facts === null) {
      tally.offence("event without plan", seq, null, plan === null ? "has no plan" : `has the plan ${plan}, which is not there`);
      return { isSound: false, deliver: none };
    }
    const { deliver, parks } = facts;
    let isSound = parking(seq, parks, (flags & eventFlag.parkedUntil) !== 0);
    const expected = (flags & eventFlag.subject) === 0 ? facts.withoutSubject : facts.withSubject;
    if (expected !== disposition) {
      isSound = false;
      const [is, ought] = [dispositionList[disposition] ?? `word ${disposition}`, dispositionList[expected]];
      tally.offence("wrong disposition", seq, null, `is ${is}; by the verdicts of its routes it is ${ought}`);
    }
    return { isSound, deliver };
  }

  function delivery(row: DeliveryRow, isPlanned: boolean): boolean {
    const event = row[deliveryColumn.event] as number;
    const route = row[deliveryColumn.route] as number;
    let isSound = isPlanned;
    if (!isPlanned) tally.offence("delivery not planned", event, route, "is there, and the route's verdict was not to deliver");
    const wrong = contradiction(row, isProxied(route));
    if (wrong !== null) {
      isSound = false;
      tally.offence("delivery contradicts itself", event, route, wrong);
    }
    if (row[deliveryColumn.attempts] !== row[deliveryColumn.tries]) {
      isSound = false;
      const [attempts, tries] = [row[deliveryColumn.attempts], row[deliveryColumn.tries]];
      tally.offence("attempts miscounted", event, route, `says ${attempts} attempts, and ${tries} were written down`);
    }
    return isSound;
  }

  /** `deliveries` from `at` on; gives the place after the event's own. `isCounted` is false for events that the filter leaves out. */
  return function judge(row: EventRow, deliveries: readonly DeliveryRow[], at: number, isCounted: boolean): number {
    const seq = row[eventColumn.seq] as number;
    let next = at;
    while (next < deliveries.length && (deliveries[next] as DeliveryRow)[deliveryColumn.event] === seq) next += 1;
    if (!isCounted) return next;
    const { isSound, deliver } = soundEvent(row);
    let allSound = isSound;
    let place = at;
    const receivedAt = row[eventColumn.receivedAt] as number;
    for (const route of deliver) {
      const sums = tally.route(route);
      sums.planned += 1;
      while (place < next && ((deliveries[place] as DeliveryRow)[deliveryColumn.route] as number) < route) {
        allSound = delivery(deliveries[place] as DeliveryRow, false) && allSound;
        place += 1;
      }
      const found = place < next ? (deliveries[place] as DeliveryRow) : undefined;
      if (found !== undefined && found[deliveryColumn.route] === route) {
        place += 1;
        if (delivery(found, true)) tally.state(sums, found[deliveryColumn.state] as number);
        else {
          sums.unaccounted += 1;
          allSound = false;
        }
      } else if (receivedAt < (sweptBefore() ?? Number.NEGATIVE_INFINITY)) sums.swept += 1;
      else {
        sums.unaccounted += 1;
        allSound = false;
        tally.offence("delivery missing", seq, route, "was to be delivered, and there is no delivery");
      }
    }
    for (; place < next; place += 1) allSound = delivery(deliveries[place] as DeliveryRow, false) && allSound;
    const duplicates = row[eventColumn.duplicates] as number;
    const conflicts = row[eventColumn.conflicts] as number;
    tally.event(row[eventColumn.source] as number, receivedAt, row[eventColumn.disposition] as number, allSound, duplicates, conflicts);
    return next;
  };
}

const none: readonly number[] = [];
