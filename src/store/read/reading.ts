import type { MaybePromise } from "../../model/maybe-promise.ts";
import type { OpenPage, StoreReading } from "../reading.ts";
import type { Work } from "../sql/ops.ts";
import { stopReason } from "../work/route-notes.ts";
import { dataId, handshakes, sourceNotes } from "../work/state-rows.ts";
import { attemptsOf, countDeliveries, findDelivery, groupDeliveries, listDeliveries } from "./deliveries.ts";
import { eventsOf, getEvent, heldBehind, latestReceived, listEvents, seqsOf } from "./events.ts";
import { readLastHour } from "./history.ts";
import { listenEnds, listenPage, seqBefore } from "./listen.ts";
import { boundsOf } from "./pages.ts";
import { backlog, quarantineCount, secretUses } from "./stats.ts";
import { findMessages, listMessages, listRuns } from "./subjects.ts";

export interface ReadingParts {
  read<T>(work: Work<T>): MaybePromise<T>;
  /**
   * The seq up to which no event appears any more; absent: that of the last event. On PostgreSQL a later number may be seen
   * before an earlier one (postgres/horizon.ts).
   */
  until?(): MaybePromise<number>;
}

/** All reads but those of `Inspecting`. */
export function createReading({ read, until = () => Number.MAX_SAFE_INTEGER }: ReadingParts) {
  const readUntil = <T>(work: (until: number) => Work<T>): MaybePromise<T> => {
    const end = until();
    return end instanceof Promise ? end.then((known) => read(work(known))) : read(work(end));
  };
  return {
    events: {
      list: (filter) => read(listEvents(filter)),
      get: (seq) => read(getEvent(seq)),
      bounds: () => read(boundsOf("events")),
      latestReceived: (after, before) => read(latestReceived(after, before)),
      seqsOf: (id) => read(seqsOf(id)),
    },
    deliveries: {
      list: (filter) => read(listDeliveries(filter)),
      attempts: (delivery) => read(attemptsOf(delivery)),
      find: (id) => read(findDelivery(id)),
      groups: (filter) => read(groupDeliveries(filter)),
      counts: (events) => read(countDeliveries(events)),
    },
    // Messages and runs share their numbers.
    messages: {
      bounds: () => read(boundsOf("subjects")),
      list: (filter) => read(listMessages(filter)),
      find: (name, of) => read(findMessages(name, of)),
    },
    runs: {
      bounds: () => read(boundsOf("subjects")),
      list: (filter) => read(listRuns(filter)),
    },
    stories: {
      eventsOf: (...subject) => read(eventsOf(...subject)),
      held: (event, route) => read(heldBehind(event, route)),
      stopReason: (route) => read(stopReason(route)),
    },
    listen: {
      page: (start, wanted) => readUntil<OpenPage>((end) => listenPage(start, end, wanted)),
      ends: () => readUntil(listenEnds),
      seqBefore: (time) => readUntil((end) => seqBefore(time, end)),
    },
    history: { lastHour: (now) => read(readLastHour(now)) },
    dataId: () => read(dataId()),
    secretUses: () => read(secretUses()),
    handshakes: () => read(handshakes()),
    sourceNotes: () => read(sourceNotes()),
    backlog: () => read(backlog()),
    quarantine: () => read(quarantineCount()),
  } satisfies StoreReading;
}
