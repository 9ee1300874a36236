import type { MaybePromise } from "../../model/maybe-promise.ts";
import type { OpenPage, Wanted } from "../port.ts";
import { bound, type Work } from "../sql/ops.ts";
import { dataId, handshakes, sourceNotes, stopReason } from "../work/state-rows.ts";
import {
  attemptsOf,
  countDeliveries,
  findDelivery,
  groupDeliveries,
  listDeliveries,
} from "./deliveries.ts";
import { eventsOf, getEvent, heldBehind, latestReceived, listEvents, seqsOf } from "./events.ts";
import { readLastHour, readQuality, readSeries } from "./history.ts";
import { listenEnds, listenPage, seqBefore } from "./listen.ts";
import { boundsOf } from "./pages.ts";
import { backlog, quarantineCount, secretUses } from "./stats.ts";
import { findMessages, listMessages, listRuns } from "./subjects.ts";

interface ReadingParts {
  read<T>(work: Work<T>): MaybePromise<T>;
  /**
   * The seq up to which no event appears any more (postgres/reader.ts). Absent: that of the last
   * event.
   */
  until?(): MaybePromise<number>;
}

/**
 * Seqs grow in the order of acceptance and are never reused. Rejects with `StoreUnavailable` when
 * the store cannot be read.
 */
export type StoreReading = ReturnType<typeof createReading> & {
  /** Lists are read outside of the thread that receives, so that one read may take longer. */
  isAside?(): boolean;
};

const reads = {
  ...{
    dataId,
    secretUses,
    handshakes,
    sourceNotes,
    stopReason,
    backlog,
    quarantine: quarantineCount,
  },
  ...{ listEvents, getEvent, eventBounds: () => boundsOf("events"), latestReceived, seqsOf },
  ...{ listDeliveries, attemptsOf, findDelivery, groupDeliveries, countDeliveries },
  // Messages and runs share their numbers.
  ...{
    subjectBounds: () => boundsOf("subjects"),
    listMessages,
    findMessages,
    listRuns,
    eventsOf,
    heldBehind,
  },
  ...{ lastHour: readLastHour, series: readSeries, quality: readQuality },
};

export function createReading({ read, until = () => Number.MAX_SAFE_INTEGER }: ReadingParts) {
  const readUntil = <T>(work: (until: number) => Work<T>): MaybePromise<T> => {
    const end = until();
    return end instanceof Promise ? end.then((known) => read(work(known))) : read(work(end));
  };
  return {
    ...bound(reads, (make) => read(make())),
    listen: {
      page: (start: number, wanted: Wanted) =>
        readUntil<OpenPage>((end) => listenPage(start, end, wanted)),
      ends: () => readUntil(listenEnds),
      seqBefore: (time: number) => readUntil((end) => seqBefore(time, end)),
    },
  };
}
