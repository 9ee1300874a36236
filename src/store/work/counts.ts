import { hourMs, minuteMs, mostCodes, otherCode } from "../../model/history.ts";
import { counters } from "../schema/tables.ts";
import { add, rows, type Sum, type Work } from "../sql/ops.ts";
import { as, select } from "../sql/sql.ts";

/** A counter: `at` is unix minutes, 0 for a total. `of`: a source or route, or empty. */
interface Counter {
  readonly at: number;
  readonly account: string;
  readonly series: string;
  readonly of: string;
  readonly label: string;
}

interface Sums extends Counter {
  n: number;
}

/** The counts of one batch, which are written in its transaction: one row for each counter. */
export interface Counts {
  add(counter: Counter, n: number, sum?: Sum): void;
  write(): Work<void>;
}

const minutesPerHour = hourMs / minuteMs;
const counter = as(counters, "c");
const codes = select({ label: counter.label });

/** `writer`: this process, or empty where it is the only one. */
export function createCounting(writer: string) {
  /** Error codes that are counted by name, by unix hour. */
  const codesOf = new Map<number, Set<string>>();

  /** Codes are foreign text: at most `mostCodes` in an hour are counted by name, and the others as one. */
  function* nameCodes(failures: readonly Sums[]): Work<void> {
    for (const failure of failures) {
      const hour = Math.floor(failure.at / minutesPerHour);
      let known = codesOf.get(hour);
      if (known === undefined) {
        if (codesOf.size > 2) codesOf.clear();
        const from = hour * minutesPerHour;
        const stored = yield* rows(
          codes`FROM counters c WHERE c.at >= ${from} AND c.at < ${from + minutesPerHour} AND c.series = 'failures' GROUP BY c.label`,
        );
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
      const sums: Readonly<Record<Sum, Map<string, Sums>>> = { sum: new Map(), max: new Map(), min: new Map() };
      return {
        add(counter, n, sum = "sum") {
          const { at, account, series, of, label } = counter;
          const key = `${at}\0${account}\0${series}\0${of}\0${label}`;
          const known = sums[sum].get(key);
          if (known === undefined) sums[sum].set(key, { ...counter, n });
          else known.n = sum === "sum" ? known.n + n : Math[sum](known.n, n);
        },
        *write() {
          yield* nameCodes([...sums.sum.values()].filter(({ series }) => series === "failures"));
          for (const sum of ["sum", "max", "min"] as const) {
            const list = merged([...sums[sum].values()]);
            if (list.length === 0) continue;
            yield add(
              counters,
              sum,
              list.map((counter) => ({ ...counter, writer, writes: 1 })),
            );
          }
        },
      };
    },
  };
}

/** In the order of their key, so that two batches do not wait for each other; codes that became one are one row. */
function merged(list: readonly Sums[]): Sums[] {
  const sorted = list.toSorted(
    (a, b) =>
      a.at - b.at || compare(a.account, b.account) || compare(a.series, b.series) || compare(a.of, b.of) || compare(a.label, b.label),
  );
  const result: Sums[] = [];
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
