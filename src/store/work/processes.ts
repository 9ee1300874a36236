import { rows, type Work } from "../sql/ops.ts";
import { sql } from "../sql/sql.ts";
import { hold, isHeld } from "./state.ts";

/** This process, as it opened the store. */
export interface Process {
  /** New with each opening. */
  readonly id: string;
  /** No other process opens the store while this one has it. */
  readonly isAlone: boolean;
}

const callerKey = (id: string): string => `caller/${id}`;
const leaderKey = (name: string): string => `leader/${name}`;

/**
 * Whether this process holds a leader lease for the next `forMs`. A stalled process can find that another does the same
 * work: leases save work, and no guarantee rests on them.
 */
export function* holdLease(name: string, forMs: number, { id }: Process): Work<boolean> {
  return yield* hold(leaderKey(name), id, forMs);
}

/** Calls of this process count as in flight for the next `forMs`. */
export function* noteCalling(forMs: number, { id, isAlone }: Process): Work<void> {
  if (!isAlone) yield* hold(callerKey(id), id, forMs);
}

/** Which of some processes are gone. The outcome of a call that they did not end is unknown. */
export function* goneOf(ids: readonly string[], { id: own, isAlone }: Process): Work<ReadonlySet<string>> {
  const gone = new Set<string>();
  for (const id of new Set(ids)) if (id !== own && (isAlone || !(yield* isHeld(callerKey(id))))) gone.add(id);
  return gone;
}

/** Releases the leases of this process and ends its calls, so that other processes need not wait until they expire. */
export function* leave({ id }: Process): Work<void> {
  yield* rows(sql`DELETE FROM state WHERE key = ${callerKey(id)}`);
  yield* rows(sql`DELETE FROM state WHERE key >= ${leaderKey("")} AND key < ${"leader0"} AND value = ${JSON.stringify(id)}`);
}
