import { hydrationStates } from "../../model/hydration.ts";
import { unpackEventId } from "../schema/codes.ts";
import { events, hydrations } from "../schema/tables.ts";
import { mostFoundShown } from "../service-port.ts";
import { ask, find, first, look, rows, type Work } from "../sql/ops.ts";
import { as, hexOf, select, sql, typed } from "../sql/sql.ts";
import type { HydrationView } from "../views.ts";
import { callsFor } from "../work/hydration-passes.ts";
import { briefOf, outcomeOf, polledCount, polledEvents } from "../work/hydrations.ts";

const e = as(events, "e");
const own = look(hydrations, ["event"], ["account", "state", "subject", "more"]);
const found = select({
  id: hexOf(e.id),
  seq: e.seq,
  wamid: typed<string | null>(sql`(SELECT s.name FROM subjects s WHERE s.seq = e.subject AND s.type = 0)`),
  status: e.status,
});

/** The hydration of a truncated event with the polled statuses; while it waits, those so far. Null for other events. */
export function* readHydration(event: number): Work<HydrationView | null> {
  const [row] = yield* ask(find(own, [[event]]));
  if (row === undefined) return null;
  const outcome = outcomeOf(row);
  const { account, subject } = row;
  const range = { account, subject, after: event, last: outcome?.last ?? Number.MAX_SAFE_INTEGER };
  const list = yield* rows(found`${polledEvents(range)} ORDER BY e.seq LIMIT ${mostFoundShown}`);
  const { reason, polled, found: foundCount, unknown, candidates } = briefOf(row);
  return {
    state: hydrationStates[row.state] ?? "given-up",
    reason,
    polled: outcome === null ? yield* callsFor(event, account) : polled,
    found: list.map(({ id, ...rest }) => ({ id: unpackEventId(id), ...rest })),
    foundCount: outcome === null ? ((yield* first(polledCount(range)))?.n ?? 0) : foundCount,
    unknown,
    candidates,
    settledAt: outcome?.settledAt ?? null,
  };
}
