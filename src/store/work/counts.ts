import type { ReceivedEvent } from "../../model/event.ts";
import { gaugeNames, minuteMs, mostCodes, otherCode } from "../../model/history.ts";
import type { Disposition } from "../../model/plan.ts";
import { counters } from "../schema/tables.ts";
import { add, rows, type Sums, type Work } from "../sql/ops.ts";
import { as, select } from "../sql/sql.ts";
import { atsOfHour, minutesPerHour } from "./hours.ts";

/** A counter: `at` is unix minutes, 0 for a total (hours are made by retention). `of`: a source or route, or empty. */
interface Counter {
  readonly at: number;
  readonly account: string;
  readonly series: string;
  readonly of: string;
  readonly label: string;
}

interface Counted extends Counter {
  n: number;
}

/** How counts of these series come together; those of all others are summed up. */
export const counting: Sums = { table: counters, max: [...gaugeNames, "secretLast"], min: ["secretFirst"] };

/** The counts of one batch, which are written in its transaction: one row for each counter. */
export interface Counts {
  add(counter: Counter, n: number): void;
  write(): Work<void>;
}

const counter = as(counters, "c");
const codes = select({ label: counter.label });

/** `writer`: this process, or empty where it is the only one. */
export function createCounting(writer: string) {
  /** Error codes that are counted by name, by unix hour. */
  const codesOf = new Map<number, Set<string>>();

  /** Codes are foreign text: at most `mostCodes` in an hour are counted by name, and the others as one. */
  function* nameCodes(failures: readonly Counted[]): Work<void> {
    for (const failure of failures) {
      const hour = Math.floor(failure.at / minutesPerHour);
      let known = codesOf.get(hour);
      if (known === undefined) {
        if (codesOf.size > 2) codesOf.clear();
        const stored = yield* rows(codes`FROM counters c WHERE c.at IN ${atsOfHour(hour * minutesPerHour)} AND c.series = 'failures'`);
        known = new Set(stored.map(({ label }) => label));
        codesOf.set(hour, known);
      }
      if (known.has(failure.label)) continue;
      if (known.size < mostCodes) known.add(failure.label);
      else Object.assign(failure, { label: otherCode });
    }
  }

  return {
    begin(): Counts {
      const list: Counted[] = [];
      // Maps in maps: a key of all five would be a new text for each count.
      const byAt: Level<Level<Level<Level<Level<Counted>>>>> = new Map();
      return {
        add(counter, n) {
          const byLabel = under(under(under(under(byAt, counter.at), counter.account), counter.series), counter.of);
          const known = byLabel.get(counter.label);
          if (known === undefined) {
            const counted = { ...counter, n };
            list.push(counted);
            byLabel.set(counter.label, counted);
          } else if (counter.series === "secretLast") known.n = Math.max(known.n, n);
          else if (counter.series === "secretFirst") known.n = Math.min(known.n, n);
          else known.n += n;
        },
        *write() {
          yield* nameCodes(list.filter(({ series }) => series === "failures"));
          if (list.length > 0)
            yield add(
              counting,
              merged(list).map((counter) => ({ ...counter, writer })),
            );
        },
      };
    },
  };
}

/** Shows which secrets are in use. A repeat shows it, too. Events that the relay made have no signature. */
export function countSecret(
  counts: Counts,
  { account, source, secret, receivedAt }: Pick<ReceivedEvent, "account" | "source" | "secret" | "receivedAt">,
  series: "secret" | "secretRepeats",
): void {
  if (secret === null) return;
  const use = { at: 0, account, of: source, label: secret };
  counts.add({ ...use, series }, 1);
  counts.add({ ...use, series: "secretLast" }, receivedAt);
  counts.add({ ...use, series: "secretFirst" }, receivedAt);
}

/** A stored event has another disposition now. It counts in the minute in which it was received. */
export function countMoved(
  counts: Counts,
  { account, source, received_at }: { readonly account: string; readonly source: string; readonly received_at: number },
  from: Disposition,
  to: Disposition,
): void {
  if (from === to) return;
  const counter = { at: Math.floor(received_at / minuteMs), account, series: "events", of: source };
  counts.add({ ...counter, label: from }, -1);
  counts.add({ ...counter, label: to }, 1);
}

type Level<T> = Map<string | number, T>;

function under<T>(level: Level<Level<T>>, key: string | number): Level<T> {
  let next = level.get(key);
  if (next === undefined) {
    next = new Map();
    level.set(key, next);
  }
  return next;
}

/** In the order of their key, so that two batches do not wait for each other; codes that became one are one row. */
function merged(list: readonly Counted[]): Counted[] {
  const sorted = list.toSorted(
    (a, b) =>
      a.at - b.at || compare(a.series, b.series) || compare(a.of, b.of) || compare(a.account, b.account) || compare(a.label, b.label),
  );
  const result: Counted[] = [];
  for (const next of sorted) {
    const last = result.at(-1);
    if (
      last?.series === "failures" &&
      next.series === "failures" &&
      last.label === next.label &&
      last.at === next.at &&
      last.account === next.account
    )
      last.n += next.n;
    else result.push(next);
  }
  return result;
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
