import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { Link } from "wouter-preact";
import { count } from "./format.ts";

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
  /** Areas on top of each other. */
  readonly isStacked?: boolean;
  readonly format?: (value: number | null) => string;
  /** Called with the start of the clicked step, in unix ms. */
  readonly onPick?: (at: number) => void;
}

const height = 200;
/** Between two ticks: counts have no fractions. */
const wholeSteps = Array.from({ length: 10 }, (_, power) => [1, 2, 5].map((each) => each * 10 ** power)).flat();

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const dateTime = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short", hour12: false });

/** The time of a tick; midnight shows the day. */
function tickText(at: number, stepS: number): string {
  const date = new Date(at);
  return stepS >= 86_400 || (date.getHours() === 0 && date.getMinutes() === 0) ? day.format(date) : clock.format(date);
}

/** A time chart. Its legend shows the totals, or the values at the pointer, and links to the rows. */
export function Chart({ label, from, stepMs, series, isStacked = false, format = count, onPick }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const look = useLook();
  const pick = useRef(onPick);
  pick.current = onPick;
  const key = JSON.stringify([look, isStacked, series.map((each) => [each.label, each.color])]);
  const plot = useRef<uPlot>(null);
  const [step, setStep] = useState<number | null>(null);
  const latest = useRef<uPlot.AlignedData>([[]]);
  const steps = Math.max(0, ...series.map(({ values }) => values.length));
  const times = Array.from({ length: steps }, (_, index) => (from + index * stepMs) / 1000);
  latest.current = [times, ...(isStacked ? stacked(series) : series.map(({ values }) => [...values]))];

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
        cursor: { y: false, drag: { x: false, y: false } },
        scales: { y: { range: (_plot, _low, high) => [0, Math.max(high * 1.05, 1)] } },
        axes: [
          { ...axis, size: 28, values: (_plot, ticks, _axis, _space, stepS) => ticks.map((tick) => tickText(tick * 1000, stepS)) },
          { ...axis, size: 56, incrs: wholeSteps, values: (_plot, ticks) => ticks.map((tick) => format(tick)) },
        ],
        legend: { show: false },
        hooks: { setCursor: [({ cursor }) => setStep(cursor.idx ?? null)] },
        series: [
          {},
          ...series.map((each) => ({
            label: each.label,
            stroke: colorOf(each.color),
            width: isStacked ? 1 : 2,
            points: { show: false },
            ...(isStacked ? { fill: `color-mix(in srgb, ${colorOf(each.color)} 55%, transparent)` } : {}),
          })),
        ],
        ...(isStacked ? { bands: series.slice(1).map((_, index) => ({ series: [index + 2, index + 1] as [number, number] })) } : {}),
      },
      latest.current,
      element,
    );
    plot.current = created;
    const resize = new ResizeObserver(() => created.setSize({ width: element.clientWidth, height }));
    resize.observe(element);
    created.over.addEventListener("click", () => {
      const at = created.cursor.idx;
      const time = typeof at === "number" ? latest.current[0][at] : undefined;
      if (time !== undefined) pick.current?.(time * 1000);
    });
    return () => {
      resize.disconnect();
      created.destroy();
      plot.current = null;
    };
  }, [key]);

  const data = JSON.stringify(latest.current);
  useEffect(() => plot.current?.setData(latest.current), [data, key]);

  const pointed = step === null ? undefined : times[step];
  return (
    <div class="chart">
      <div class={onPick === undefined ? "plot" : "plot pickable"} ref={place} role="img" aria-label={label} />
      <ul class="legend">
        {series.map(({ label: name, color, values, total, href }) => (
          <li key={name}>
            <span class="swatch" style={{ background: `var(${color})` }} aria-hidden="true" />
            {href === null ? name : <Link href={href}>{name}</Link>}{" "}
            <span class="value">{format(pointed === undefined ? total : (values[step ?? 0] ?? null))}</span>
          </li>
        ))}
        {pointed !== undefined && <li class="dim">at {dateTime.format(pointed * 1000)}</li>}
      </ul>
    </div>
  );
}

function stacked(series: readonly ChartSeries[]): number[][] {
  const sums: number[] = [];
  return series.map(({ values }) =>
    values.map((value, index) => {
      sums[index] = (sums[index] ?? 0) + (value ?? 0);
      return sums[index];
    }),
  );
}

/** The color of a custom property as canvases understand it: the property itself may hold `light-dark()`. */
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
    const read = () => setLook(`${dark.matches} ${document.documentElement.dataset["theme"] ?? ""}`);
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
export function Sparkline({ values, label }: { values: readonly (number | null)[]; label: string }) {
  const known = values.filter((value) => value !== null);
  const high = Math.max(...known, 0);
  const points = values.map((value, index) =>
    value === null ? null : [(index / Math.max(values.length - 1, 1)) * 100, high === 0 ? 21 : 21 - (value / high) * 18],
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
    <svg class="sparkline" viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label={label}>
      <path
        d={line}
        fill="none"
        stroke="currentColor"
        stroke-width="1.5"
        vector-effect="non-scaling-stroke"
        stroke-linejoin="round"
        stroke-linecap="round"
      />
      <path d={dots} stroke="currentColor" stroke-width="4" vector-effect="non-scaling-stroke" stroke-linecap="round" />
    </svg>
  );
}
