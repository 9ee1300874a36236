import type { AcceptOutcome, ReleasedEvent } from "../port.ts";
import { codeOf } from "../schema/codes.ts";
import { events } from "../schema/tables.ts";
import { ask, change, find, look, update, type Work } from "../sql/ops.ts";
import { type AcceptParts, accept } from "./accept.ts";
import { type Counts, countMoved } from "./counts.ts";
import type { PlannedBatch } from "./plans.ts";

const kept = look(events, ["seq"], ["account", "source", "received_at", "disposition"], {
  lock: "update",
});
const words = ["quarantined", "unassigned"] as const;
const released = change(events, ["disposition", "release"]);

/** Repeats make one event, because its id is the same. The caller writes the counts. */
export function* release(
  batch: readonly ReleasedEvent[],
  parts: AcceptParts,
  counts: Counts,
): Work<PlannedBatch<AcceptOutcome | null>> {
  const places = [
    ...new Map(
      batch.map((event, place) => [event.releaseOf, place] as const).toReversed(),
    ).values(),
  ];
  const once = places.map((place) => ({ place, event: batch[place] as ReleasedEvent }));
  once.sort((a, b) => a.event.releaseOf - b.event.releaseOf);
  // Before the subjects: accepting locks no such row.
  const rows = yield* ask(find(kept, once, ({ event: { releaseOf } }) => [releaseOf]));
  const wordOf = (index: number) =>
    words.find((word) => codeOf.disposition[word] === rows[index]?.disposition);
  const here = once.filter((_, index) => wordOf(index) !== undefined);
  const { outcomes, plans } = yield* accept(
    here.map(({ event }) => ({ event, proxyRoute: null })),
    parts,
    counts,
  );
  for (const [index, row] of rows.entries()) {
    const word = wordOf(index);
    if (row !== undefined && word !== undefined) countMoved(counts, row, word, "released");
  }
  yield update(
    released,
    here.map(({ event }, index) => ({
      seq: event.releaseOf,
      disposition: codeOf.disposition.released,
      release: (outcomes[index] as AcceptOutcome).seq,
    })),
  );
  const byPlace = new Map(
    here.map(({ place }, index) => [place, outcomes[index] as AcceptOutcome]),
  );
  return { outcomes: batch.map((_, place) => byPlace.get(place) ?? null), plans };
}
