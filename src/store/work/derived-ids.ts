import { ids, type RowOf } from "../schema/tables.ts";
import { change, look } from "../sql/ops.ts";

/** Meta repeats a request for seven days. Events themselves may be deleted earlier. */
const keptMs = 8 * 86_400_000;

export const knownId = look(ids, ["id"], ["seq"]);
/** Another row has the event now: it was released. */
export const movedId = change(ids, ["seq"]);

export const idRow = (id: Buffer, seq: number, receivedAt: number): RowOf<typeof ids> => ({ id, seq, until: receivedAt + keptMs });
