import type { Failing } from "../../model/breaker.ts";
import type { Work } from "../sql/ops.ts";
import { failingKey, type Pause, pauseKey, type Stop, stopKey } from "../work/route-notes.ts";
import { values } from "../work/state.ts";

/** Why the destination of a route is stopped. Null: it is not. */
export function* stopReason(route: string): Work<string | null> {
  const [stop = null] = yield* values<Stop>([stopKey(route)]);
  return stop?.reason ?? null;
}

/** The pause that the destination of a route asked for, which may be over. Null: none. */
export function* pauseOf(route: string): Work<Pause | null> {
  const [pause = null] = yield* values<Pause>([pauseKey(route)]);
  return pause;
}

/** The failed attempts of a route in a row. Null: none. */
export function* failingOf(route: string): Work<Failing | null> {
  const [failing = null] = yield* values<Failing>([failingKey(route)]);
  return failing;
}
