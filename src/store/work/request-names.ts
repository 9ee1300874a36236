import type { EventId } from "../../model/ids.ts";
import type { RowOf } from "../schema/table.ts";
import { state } from "../schema/tables.ts";
import { change, find, insert, look, together, update, type Work } from "../sql/ops.ts";

/** A signed request, and the id that its event gets unless the same bytes got one within the last `forMs`. */
export interface Naming {
  readonly request: string;
  readonly id: EventId;
  readonly now: number;
  readonly forMs: number;
}

type StateRow = RowOf<typeof state>;

const own = look(state, ["key"], ["key", "value", "until"], { lock: "update" });
const renamed = change(state, ["value", "until"], { count: ["version"] });

/** The event ids of requests. Of two that name a request at once, one fails, and finds the other's name when it is repeated. */
export function* nameRequests(batch: readonly Naming[]): Work<readonly EventId[]> {
  const keys = [...new Set(batch.map(keyOf))].sort();
  const [rows] = yield* together([
    find(
      own,
      keys.map((key) => [key]),
    ),
  ]);
  const stored = new Map(rows.flatMap((row) => (row === undefined ? [] : [[row.key, row]])));
  const named = new Map<string, Pick<StateRow, "key" | "value" | "until">>(stored);
  const ids = batch.map((naming) => {
    const { id, now, forMs } = naming;
    const key = keyOf(naming);
    const until = named.get(key)?.until ?? 0;
    // A later time was written under a wrong clock.
    if (until > now && until <= now + forMs) return JSON.parse((named.get(key) as StateRow).value) as EventId;
    named.set(key, { key, value: JSON.stringify(id), until: now + forMs });
    return id;
  });
  const changed = keys.flatMap((key) => {
    const row = named.get(key);
    return row === undefined || row === stored.get(key) ? [] : [row];
  });
  yield* together([
    insert(
      state,
      changed.filter(({ key }) => !stored.has(key)).map((row) => ({ ...row, version: 1 })),
    ),
    update(
      renamed,
      changed.filter(({ key }) => stored.has(key)),
    ),
  ]);
  return ids;
}

const keyOf = ({ request }: Naming): string => `request/${request}`;
