import type { Work } from "../sql/ops.ts";
import { put, values } from "./state.ts";

const idKey = "store/id";

/** The random id of the stored data. Null: no relay has opened the store yet. */
export function* dataId(): Work<string | null> {
  const [id = null] = yield* values<string>([idKey]);
  return id;
}

/** Shows that the store can write. */
export function* probe(at: number): Work<void> {
  yield* put("store/probed", at);
}
