import type { Tally } from "../../audit/tally.ts";
import type { Names } from "../names.ts";
import type { Db } from "../open.ts";
import { nameIn } from "./name-in.ts";

interface ProofSum {
  readonly source: number;
  readonly secret: number;
  events: number;
}

/**
 * Holds what secrets are said to have proved against the events that are stored: retention lowers the second, and
 * nothing lowers the first. What came again says nothing: it may have come with another secret than at first.
 */
export function createProofsCheck(db: Db, names: Names) {
  const told = db.prepare<[], ProofSum>("SELECT source, secret, events FROM proofs").all();
  const stored = new Map<string, ProofSum>();
  let last: ProofSum | null = null;

  return {
    stored(source: number, secret: number | null): void {
      if (secret === null) return;
      if (last === null || last.source !== source || last.secret !== secret) {
        const key = `${source}.${secret}`;
        last = stored.get(key) ?? { source, secret, events: 0 };
        stored.set(key, last);
      }
      last.events += 1;
    },
    /** `accepted`: how many events there have ever been. */
    check(accepted: number, tally: Tally<number>): void {
      const all = told.reduce((sum, { events }) => sum + events, 0);
      if (all > accepted) {
        tally.offence("proofs differ", null, null, `secrets are said to have proved ${all} events, and ${accepted} were ever accepted`);
      }
      for (const { source, secret, events } of stored.values()) {
        const counted = told.find((sum) => sum.source === source && sum.secret === secret)?.events ?? 0;
        if (counted >= events) continue;
        const who = `of source ${nameIn(names, source)} by secret ${nameIn(names, secret)}`;
        tally.offence("proofs differ", null, null, `${events} events ${who} are stored, and ${counted} are counted`);
      }
    },
  };
}
