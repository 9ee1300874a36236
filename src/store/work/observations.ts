import type { AccountObservation, ObservationsRead } from "../port.ts";
import { state } from "../schema/tables.ts";
import { rows, type Work } from "../sql/ops.ts";
import { as, select } from "../sql/sql.ts";
import { create, put, values } from "./state.ts";

/*
 * What processes observed of webhooks, for the leader that judges silence. Each note has the next number. The row with the
 * last number stays locked until the commit, so that a reader that has seen a number misses no smaller one.
 */

/** The longest `silence.after`. */
const keptMs = 86_400_000;
const readAtOnce = 1_000;

const lastKey = "observed";
const prefix = "observation/";
const keyOf = (number: number): string => `${prefix}${String(number).padStart(16, "0")}`;

export function* noteObservations(observations: readonly AccountObservation[]): Work<void> {
  if (observations.length === 0) return;
  const [last = null] = yield* values<number>([lastKey], "update");
  const number = (last ?? 0) + 1;
  if (last === null) yield* create(lastKey, number);
  else yield* put(lastKey, number);
  yield* put(keyOf(number), observations, Math.max(...observations.map(({ at }) => at)) + keptMs);
}

const s = as(state, "s");
const noted = select({ key: s.key, value: s.value });

/** The observations after a place. Null: after the time `from`. */
export function* observationsAfter(place: string | null, from: number): Work<ObservationsRead> {
  const observations: AccountObservation[] = [];
  const since = place === null ? from : 0;
  let last = place;
  for (;;) {
    const found = yield* rows(
      noted`FROM state s WHERE s.key > ${last ?? prefix} AND s.key < ${keyOf(Number.MAX_SAFE_INTEGER)} ORDER BY s.key LIMIT ${readAtOnce}`,
    );
    for (const { value } of found) observations.push(...(JSON.parse(value) as AccountObservation[]).filter(({ at }) => at > since));
    last = found.at(-1)?.key ?? last;
    if (found.length < readAtOnce) return { observations, place: last };
  }
}
