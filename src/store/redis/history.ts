import type { Settlement } from "../../model/delivery.ts";
import { outcomeOf } from "../../model/delivery.ts";
import { bucketOf, countsOfTracking, type GaugeSample, historySeries, hourMs, minuteMs, type SeriesName } from "../../model/history.ts";
import type { Disposition } from "../../model/plan.ts";
import type { Tracking } from "../../model/tracking.ts";
import { type Commit, type Counts, type Operation, pushOperations } from "./commit.ts";
import type { EventRow } from "./event-rows.ts";
import type { Keys } from "./keys.ts";
import type { StoredSubject } from "./rows.ts";
import type { Argument } from "./script.ts";
import type { Transaction } from "./transact.ts";

/** A change by one: the end of a key, and a field. */
export type Sample = readonly [tail: string, field: string];

/** The end of the key that counts a series in the minute of `at` (unix ms). */
export const tailOf = (series: SeriesName, at: number): string => `${series}:${Math.floor(at / minuteMs)}`;

/** A counter's field: its source or route, if the series has one, and its label. */
export const fieldOf = (subject: string, label: string): string => `${subject}:${label}`;

/** No label of a route has a colon, and no name of a source. */
export function readField(series: SeriesName, field: string): { readonly subject: string; readonly label: string } {
  const { of } = historySeries[series];
  if (of === null) return { subject: "", label: field };
  const end = of === "route" ? field.lastIndexOf(":") : field.indexOf(":");
  return { subject: field.slice(0, end), label: field.slice(end + 1) };
}

type CountedEvent = Pick<EventRow, "source" | "receivedAt" | "disposition">;

export function countsOfEvent({ source, receivedAt, disposition }: CountedEvent, n: 1 | -1): readonly [...Sample, n: string] {
  return [tailOf("events", receivedAt), fieldOf(source, disposition), String(n)];
}

/** An event's disposition changes: its minute loses one and gains one. */
export function countDisposition(tx: Transaction, row: EventRow, to: Disposition): void {
  if (to === row.disposition) return;
  tx.operate(["count", ...countsOfEvent(row, -1), ...countsOfEvent({ ...row, disposition: to }, 1)]);
}

interface CountedTracking {
  readonly counts: Counts;
  /** Of a histogram. Its buckets differ from event to event, so it is no part of the step's form (commit.ts). */
  readonly sample: Sample | null;
}

const nothing: CountedTracking = { counts: [], sample: null };

/** What an event counts that moved a message or run. `next` is its row after the event. */
export function countTracking({ source, receivedAt }: EventRow, tracking: Tracking, next: StoredSubject | null): CountedTracking {
  if (tracking.transition === null || next === null) return nothing;
  const counts: string[] = [];
  let sample: Sample | null = null;
  for (const [series, label] of countsOfTracking(tracking, next.times, next.sentAt)) {
    const { kind, of } = historySeries[series];
    if (kind === "histogram") sample = [tailOf(series, receivedAt), label];
    else counts.push(tailOf(series, receivedAt), of === null ? label : fieldOf(source, label), "1");
  }
  return { counts, sample };
}

export function countsOfAttempt({ route, attempt, settled, at }: Settlement): Counts {
  const made = [tailOf("attempts", attempt.at), fieldOf(route, outcomeOf(attempt.result)), "1"];
  return settled.to === "dead" ? [...made, tailOf("dead", at), fieldOf(route, ""), "1"] : made;
}

/** The milliseconds from receipt to delivered. */
export function sampleOfDelivery({ route, receivedAt, settled, at }: Settlement): Sample | null {
  if (settled.to !== "delivered" || receivedAt === undefined) return null;
  return [tailOf("delivery", at), fieldOf(route, String(bucketOf(at - receivedAt)))];
}

/** Acknowledgements are written together, this often. */
const acknowledgedEveryMs = 1_000;

/** The counts that no stored row brings. */
export function createHistoryWriting({ base }: Keys, commit: Commit) {
  let acknowledged = new Map<string, number>();
  let timer: NodeJS.Timeout | null = null;
  let writing: Promise<void> = Promise.resolve();

  async function run(operations: readonly Operation[]): Promise<void> {
    const list: Argument[] = ["T", "0"];
    pushOperations(list, operations);
    await commit.run({ list, operations: operations.length });
  }

  /** What cannot be written now is written with the next ones. */
  async function write(): Promise<void> {
    if (acknowledged.size === 0) return;
    const gathered = acknowledged;
    acknowledged = new Map();
    try {
      await run([["count", ...[...gathered].flatMap(([place, n]) => [...place.split(" "), String(n)])]]);
    } catch {
      for (const [place, n] of gathered) acknowledged.set(place, (acknowledged.get(place) ?? 0) + n);
    }
  }

  return {
    noteAcknowledged(tookMs: number, at: number): void {
      const place = `${tailOf("ack", at)} ${bucketOf(tookMs)}`;
      acknowledged.set(place, (acknowledged.get(place) ?? 0) + 1);
      timer ??= setTimeout(() => {
        timer = null;
        writing = write();
      }, acknowledgedEveryMs).unref();
    },
    async sampleGauges(values: GaugeSample, at: number): Promise<void> {
      const hour = String(Math.floor(at / hourMs));
      await run(
        (["oldest", "deadLetters"] as const).flatMap((name): Operation[] => [
          ["call", "HSET", `${base}hm:${tailOf(name, at)}`, "", String(Math.round(values[name]))],
          ["call", "ZADD", `${base}minutes:${name}`, hour, hour],
        ]),
      );
    },
    /** Writes what is gathered. */
    async close(): Promise<void> {
      if (timer !== null) clearTimeout(timer);
      await writing;
      await write();
    },
  };
}
