import type { MaybePromise } from "../../model/maybe-promise.ts";
import { bound, type Work } from "../sql/ops.ts";
import type { OpenPage, Wanted } from "../views.ts";
import { stopReason } from "../work/route-notes.ts";
import { dataId, handshakes, sourceNotes } from "../work/state-rows.ts";
import { attemptsOf, countDeliveries, findDelivery, groupDeliveries, listDeliveries } from "./deliveries.ts";
import { eventsOf, getEvent, heldBehind, latestReceived, listEvents, seqsOf } from "./events.ts";
import { readLastHour } from "./history.ts";
import { listenEnds, listenPage, seqBefore } from "./listen.ts";
import { boundsOf } from "./pages.ts";
import { backlog, quarantineCount, secretUses } from "./stats.ts";
import { findMessages, listMessages, listRuns } from "./subjects.ts";

interface ReadingParts {
  read<T>(work: Work<T>): MaybePromise<T>;
  /** The seq up to which no event appears any more (postgres/reader.ts). Absent: that of the last event. */
  until?(): MaybePromise<number>;
}

/** Seqs grow in the order of acceptance and are never reused. Rejects with `StoreUnavailable` when the store cannot be read. */
export type StoreReading = ReturnType<typeof createReading> & {
  /** Lists are read outside of the thread that receives, so that one read may take longer. */
  isAside?(): boolean;
};

export function createReading({ read, until = () => Number.MAX_SAFE_INTEGER }: ReadingParts) {
  const run = (make: () => Work<unknown>) => read(make());
  const readUntil = <T>(work: (until: number) => Work<T>): MaybePromise<T> => {
    const end = until();
    return end instanceof Promise ? end.then((known) => read(work(known))) : read(work(end));
  };
  return {
    ...bound({ dataId, secretUses, handshakes, sourceNotes, backlog, quarantine: quarantineCount }, run),
    events: bound({ list: listEvents, get: getEvent, bounds: () => boundsOf("events"), latestReceived, seqsOf }, run),
    deliveries: bound(
      { list: listDeliveries, attempts: attemptsOf, find: findDelivery, groups: groupDeliveries, counts: countDeliveries },
      run,
    ),
    // Messages and runs share their numbers.
    messages: bound({ bounds: () => boundsOf("subjects"), list: listMessages, find: findMessages }, run),
    runs: bound({ bounds: () => boundsOf("subjects"), list: listRuns }, run),
    stories: bound({ eventsOf, held: heldBehind, stopReason }, run),
    listen: {
      page: (start: number, wanted: Wanted) => readUntil<OpenPage>((end) => listenPage(start, end, wanted)),
      ends: () => readUntil(listenEnds),
      seqBefore: (time: number) => readUntil((end) => seqBefore(time, end)),
    },
    history: bound({ lastHour: readLastHour }, run),
  };
}
