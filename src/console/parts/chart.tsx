import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { Link } from "wouter-preact";
import { count } from "./format.ts";
import { joinSteps, stack } from "./join-steps.ts";

export interface ChartSeries {
  readonly label: string;
  readonly values: readonly (number | null)[];
  /** Of all steps. */
  readonly total: number | null;
  /** The rows behind it. Null: several lists have them. */
  readonly href: string | null;
  /** A custom property of the style sheet, such as `--ok`. */
  readonly color: string;
}

interface ChartProps {
  /** What it shows, for people who cannot see it. */
  readonly label: string;
  /** Unix ms. */
  readonly from: number;
  readonly stepMs: number;
  readonly series: readonly ChartSeries[];
  /** Called with the time of the clicked bar, in unix ms. */
  readonly onPick?: (from: number, to: number) => void;
}

const height = 200;
const barPaths = uPlot.paths.bars?.({ size: [1, Number.POSITIVE_INFINITY], gap: 1 });
/** Between two ticks: counts have no fractions. */
const wholeSteps = Array.from({ length: 10 }, (_, power) =>
  [1, 2, 5].map((each) => each * 10 ** power),
).flat();

const clock = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  hour12: false,
});
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const dateTime = new Intl.DateTimeFormat(undefined, {
  dateStyle: "medium",
  timeStyle: "short",
  hour12: false,
});

/** The time of a tick; midnight shows the day. */
function tickText(at: number, stepS: number): string {
  const date = new Date(at);
  return stepS >= 86_400 || (date.getHours() === 0 && date.getMinutes() === 0)
    ? day.format(date)
    : clock.format(date);
}

/**
 * Counts over time, as bars on top of each other. Its legend shows the totals, or the values at the
 * pointer, and links to the rows.
 */
export function Chart({ label, from, stepMs, series, onPick }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const look = useLook();
  const pick = useRef(onPick);
  pick.current = onPick;
  const key = JSON.stringify([look, series.map((each) => [each.label, each.color])]);
  const plot = useRef<uPlot>(null);
  const [pointed, setPointed] = useState<number | null>(null);
  const bars = joinSteps(
    from,
    stepMs,
    series.map(({ values }) => values),
  );
  const begins = (bars.values[0] ?? []).map((_, bar) => bars.from + bar * bars.ms);
  const spanOf = (bar: number) =>
    [Math.max(from, begins[bar] ?? from), (begins[bar] ?? from) + bars.ms] as const;
  const middles = begins.map((begin) => (begin + bars.ms / 2) / 1000);
  const data = [middles, ...stack(bars.values)] as uPlot.AlignedData;
  const latest = useRef({ data, begins, spanOf });
  latest.current = { data, begins, spanOf };

  useEffect(() => {
    const element = place.current;
    if (element === null) return undefined;
    const colorOf = (name: string) => resolved(element, name);
    const axis = {
      stroke: colorOf("--dim"),
      grid: { stroke: colorOf("--line"), width: 1 },
      ticks: { show: false },
      font: "12px system-ui",
    };
    const created = new uPlot(
      {
        width: element.clientWidth,
        height,
        cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
        scales: {
          x: {
            range: () => {
              const { begins, spanOf } = latest.current;
              return [(begins[0] ?? 0) / 1000, spanOf(begins.length - 1)[1] / 1000];
            },
          },
          y: { range: (_plot, _low, high) => [0, Math.max(high * 1.05, 1)] },
        },
        axes: [
          {
            ...axis,
            size: 28,
            values: (_plot, ticks, _axis, _space, stepS) =>
              ticks.map((tick) => tickText(tick * 1000, stepS)),
          },
          {
            ...axis,
            size: 56,
            incrs: wholeSteps,
            values: (_plot, ticks) => ticks.map((tick) => count(tick)),
          },
        ],
        legend: { show: false },
        hooks: { setCursor: [({ cursor }) => setPointed(cursor.idx ?? null)] },
        series: [
          {},
          ...series.map((each) => ({
            label: each.label,
            fill: colorOf(each.color),
            width: 0,
            points: { show: false },
            ...(barPaths === undefined ? {} : { paths: barPaths }),
          })),
        ],
        // Each bar begins where the one below it ends.
        bands: series
          .slice(1)
          .map((_, index) => ({ series: [index + 2, index + 1] as [number, number] })),
      },
      latest.current.data,
      element,
    );
    plot.current = created;
    const resize = new ResizeObserver(() =>
      created.setSize({ width: element.clientWidth, height }),
    );
    resize.observe(element);
    created.over.addEventListener("click", () => {
      const bar = created.cursor.idx;
      if (typeof bar === "number") pick.current?.(...latest.current.spanOf(bar));
    });
    return () => {
      resize.disconnect();
      created.destroy();
      plot.current = null;
    };
  }, [key]);

  useEffect(() => plot.current?.setData(data), [JSON.stringify(data), key]);

  return (
    <div class="chart">
      <div
        class={onPick === undefined ? "plot" : "plot pickable"}
        ref={place}
        role="img"
        aria-label={label}
      />
      <ul class="legend">
        {series.map(({ label: name, color, total, href }, index) => (
          <li key={name}>
            <span class="swatch" style={{ background: `var(${color})` }} aria-hidden="true" />
            {href === null ? name : <Link href={href}>{name}</Link>}{" "}
            <span class="value">
              {count(pointed === null ? total : bars.values[index]?.[pointed])}
            </span>
          </li>
        ))}
        {pointed !== null && <li class="dim">at {dateTime.formatRange(...spanOf(pointed))}</li>}
      </ul>
    </div>
  );
}

/**
 * The color of a custom property as canvases understand it: the property itself may hold
 * `light-dark()`.
 */
function resolved(element: HTMLElement, name: string): string {
  const { color } = element.style;
  element.style.color = `var(${name})`;
  const value = getComputedStyle(element).color;
  element.style.color = color;
  return value;
}

/** Changes when the colors do: a canvas does not follow the style sheet. */
function useLook(): string {
  const [look, setLook] = useState("");
  useEffect(() => {
    const dark = window.matchMedia("(prefers-color-scheme: dark)");
    const read = () =>
      setLook(`${dark.matches} ${document.documentElement.dataset["theme"] ?? ""}`);
    read();
    dark.addEventListener("change", read);
    const observer = new MutationObserver(read);
    observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => {
      dark.removeEventListener("change", read);
      observer.disconnect();
    };
  }, []);
  return look;
}

/** Sixty values as a line without axes. */
export function Sparkline({
  values,
  label,
}: {
  values: readonly (number | null)[];
  label: string;
}) {
  const known = values.filter((value) => value !== null);
  const high = Math.max(...known, 0);
  const points = values.map((value, index) =>
    value === null
      ? null
      : [
          (index / Math.max(values.length - 1, 1)) * 100,
          high === 0 ? 21 : 21 - (value / high) * 18,
        ],
  );
  let line = "";
  let dots = "";
  points.forEach((point, index) => {
    if (point === null) return;
    const place = `${point[0]?.toFixed(1)} ${point[1]?.toFixed(1)}`;
    line += `${points[index - 1] == null ? "M" : "L"}${place}`;
    // A line needs two values: one without neighbors is a dot.
    if (points[index - 1] == null && points[index + 1] == null) dots += `M${place}h.01`;
  });
  return (
    <svg
      class="sparkline"
      viewBox="0 0 100 24"
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      <path
        d={line}
        fill="none"
        stroke="currentColor"
        stroke-width="1.5"
        vector-effect="non-scaling-stroke"
        stroke-linejoin="round"
        stroke-linecap="round"
      />
      <path
        d={dots}
        stroke="currentColor"
        stroke-width="4"
        vector-effect="non-scaling-stroke"
        stroke-linecap="round"
      />
    </svg>
  );
}
