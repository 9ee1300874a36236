import type { AuditRule } from "../../model/audit.ts";
import type { Disposition, KeptVerdict } from "../../model/plan.ts";
import type { Tally } from "./tally.ts";

/** Parked events may end this much late, because many are ended a few at a time. */
export const lateMs = 5 * 60_000;
/** Tolerance for clocks that were set, or differ: otherwise events are stored in the order received. */
export const clockSlackMs = 3_600_000;

/** The disposition that the verdicts of its routes give an event. */
export function dispositionBy(verdicts: readonly KeptVerdict[], hasSubject: boolean): Disposition {
  const has = (word: KeptVerdict[1]): boolean => verdicts.some(([, verdict]) => verdict === word);
  if (has("deliver")) return "routed";
  if (has("park")) return "parked";
  // Without a message or run, this reason means that the event cannot be registered.
  return hasSubject && verdicts.some(([, , reason]) => reason === "untracked") ? "ignored" : "filtered";
}

interface AuditedDelivery<Key> {
  readonly event: number;
  readonly route: Key;
  /** As its row counts them. */
  readonly attempts: number;
  /** As they are stored. */
  readonly storedAttempts: number;
}

/** The rules about single rows. Each function returns false and reports an offence when its rule is broken. */
export function createRowRules<Key extends string | number>(tally: Tally<Key>, parkedSince: number) {
  function offends(rule: AuditRule, event: number, route: Key | null, what: string): false {
    tally.offence(rule, event, route, what);
    return false;
  }

  return {
    offends,
    /** `isBare`: the row has what only a quarantined or released body has. */
    body(seq: number, disposition: Disposition, isBare: boolean): boolean {
      return isBare || offends("wrong disposition", seq, null, `is ${disposition}, and has what only an event with a valid envelope has`);
    },
    withoutPlan(seq: number, plan: string | number | null): false {
      return offends("event without plan", seq, null, plan === null ? "has no plan" : `has the plan ${plan}, which is not there`);
    },
    /** An event is parked until a time or until its hydration ends, and only while a route waits for it. */
    parking(seq: number, parks: boolean, parkedUntil: number | null, isHydrating: () => boolean): boolean {
      if (parks && parkedUntil === null) return isHydrating() || offends("parking broken", seq, null, "is parked, and nothing ends that");
      if (parkedUntil === null) return true;
      if (!parks) return offends("parking broken", seq, null, "is parked until a time, and no route waits for it");
      return parkedUntil >= parkedSince || offends("parked too long", seq, null, `was parked until ${new Date(parkedUntil).toISOString()}`);
    },
    disposition(seq: number, is: string, expected: Disposition): boolean {
      return is === expected || offends("wrong disposition", seq, null, `is ${is}; by the verdicts of its routes it is ${expected}`);
    },
    /** `fault`: why the row contradicts itself. */
    delivery({ event, route, attempts, storedAttempts }: AuditedDelivery<Key>, isPlanned: boolean, fault: string | null): boolean {
      let isSound = isPlanned || offends("delivery not planned", event, route, "is there, and the route's verdict was not to deliver");
      if (fault !== null) isSound = offends("delivery contradicts itself", event, route, fault);
      if (attempts !== storedAttempts) {
        isSound = offends("attempts miscounted", event, route, `says ${attempts} attempts, and ${storedAttempts} were written down`);
      }
      return isSound;
    },
    missingDelivery: (event: number, route: Key): false =>
      offends("delivery missing", event, route, "was to be delivered, and there is no delivery"),
  };
}

/**
 * Checks the usage counts of secrets against the stored events, both by source and secret. Retention lowers the events and
 * not the counts. Duplicates are not checked: they may have come with another secret. `accepted`: how many events there
 * have ever been.
 */
export function checkUsage<Key extends string | number>(
  tally: Tally<Key>,
  counted: ReadonlyMap<string, number>,
  stored: ReadonlyMap<string, number>,
  accepted: number,
): void {
  const all = [...counted.values()].reduce((sum, events) => sum + events, 0);
  if (all > accepted) {
    tally.offence("secret usage differs", null, null, `secrets verified ${all} events, but only ${accepted} were accepted`);
  }
  for (const [name, events] of stored) {
    const known = counted.get(name) ?? 0;
    if (known >= events) continue;
    tally.offence("secret usage differs", null, null, `${events} events by source and secret ${name} are stored, and ${known} are counted`);
  }
}
