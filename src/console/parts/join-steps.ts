const minuteMs = 60_000;
/** As many bars as a phone can show. */
const mostBars = 120;
const lengths = [1, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440].map(
  (minutes) => minutes * minuteMs,
);

type Values = readonly (number | null)[];

interface Bars {
  readonly from: number;
  readonly ms: number;
  readonly values: readonly Values[];
}

/**
 * Adds up steps to bars that are few enough to see. They begin at round times, so that they stay
 * when the range moves.
 */
export function joinSteps(from: number, stepMs: number, series: readonly Values[]): Bars {
  const end = from + Math.max(0, ...series.map(({ length }) => length)) * stepMs;
  const ms =
    lengths.find((each) => each % stepMs === 0 && (end - from) / each <= mostBars) ?? stepMs;
  const first = Math.floor(from / ms) * ms;
  const values = series.map((steps) => {
    const bars = new Array<number | null>(Math.ceil((end - first) / ms)).fill(null);
    steps.forEach((value, step) => {
      const bar = Math.floor((from + step * stepMs - first) / ms);
      if (value !== null) bars[bar] = (bars[bar] ?? 0) + value;
    });
    return bars;
  });
  return { from: first, ms, values };
}

/** For each series, the sum up to it: the height of its bar in a stack. */
export function stack(series: readonly Values[]): Values[] {
  let below: Values = [];
  return series.map((values) => {
    below = values.map((value, bar) =>
      value === null ? (below[bar] ?? null) : (below[bar] ?? 0) + value,
    );
    return below;
  });
}
